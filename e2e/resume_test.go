package e2e

import (
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// resuming are the peers that resume a stream when it has ended.
var resuming = []peer{
	{"client", "legacy", "http", legacyVersion, "client_cancel"},
	{"sdk", "legacy", "http", legacyVersion, "client_cancel"},
	{"gosdk", legacyVersion, "http", legacyVersion, "client_cancel"},
	{"mcpgo", legacyVersion, "http", legacyVersion, "session_delete"},
}

// The server ends the stream of a call, or a proxy breaks it. With the id of the last event the
// client gets the rest.
func TestBrokenStreamIsResumed(t *testing.T) {
	for _, p := range resuming {
		t.Run(p.library, func(t *testing.T) {
			driver := command(t, p.library, p.mode, p.transport)
			t.Parallel()
			s := serveHTTP(t)
			w := newWire(t, s.mcp)
			driver.args = append(driver.args, w.url(s.mcp))
			c := &client{peer: p, server: s, name: "e2e-" + p.library}
			c.driver, _ = drive(t, driver)
			t.Run("ended", func(t *testing.T) {
				if r := c.call(t, "test_reconnection", object{}); r.Result == nil || r.Result.IsError || r.text() == "" {
					t.Errorf("test_reconnection: %+v %+v", r.Result, r.Error)
				}
			})
			t.Run("cut", func(t *testing.T) { checkCut(t, c, w) })
			if n := s.metrics(t).sum("vitrine_streams_resumed_total"); n < 1 {
				t.Errorf("%v streams were resumed", n)
			}
			checkEnd(t, c)
		})
	}
}

// checkCut breaks the connections in the middle of a call.
func checkCut(t *testing.T, c *client, w *wire) {
	const steps = 20
	id := c.send(t, "call", object{"name": "progress", "arguments": object{"steps": steps, "ms": 50}, "progress": true})
	first := c.take(t, func(r reply) bool { return r.ID == id })
	if first.Progress == nil {
		t.Fatalf("no progress: %+v %+v", first.Result, first.Error)
	}
	before := c.server.metrics(t).sum("vitrine_streams_resumed_total")
	w.cut()
	r, more := c.await(t, id)
	if c.library == "mcpgo" {
		// It resumes a stream that has ended in order, and not one that broke
		// (client/transport/streamable_http.go, line 968). Its answer is not fetched.
		if r.Error == nil {
			t.Errorf("the call: %+v", r.Result)
		}
		if rep := c.server.settled(t); rep.Totals.Stored == 0 {
			t.Errorf("the answer was not stored: %+v", rep.Totals)
		}
		return
	}
	if r.text() != "20 steps done" {
		t.Errorf("the call: %+v %+v", r.Result, r.Error)
	}
	progress := append([]float64{first.Progress.Progress}, more...)
	for len(progress) < steps-1 { // the last one may be lost, see checkProgress
		late := c.take(t, func(r reply) bool { return r.ID == id })
		progress = append(progress, late.Progress.Progress)
	}
	var want []float64
	for i := range steps {
		want = append(want, float64(i+1))
	}
	if !slices.Equal(progress, want[:len(progress)]) {
		t.Errorf("progress %v, want each step once", progress)
	}
	if after := c.server.metrics(t).sum("vitrine_streams_resumed_total"); after <= before {
		t.Errorf("%v streams were resumed before, and %v after", before, after)
	}
}

// A wire is a proxy between a client and a server that can break connections.
type wire struct {
	listener net.Listener
	mu       sync.Mutex
	ends     []net.Conn
}

// newWire returns a wire to the server with the URL.
func newWire(t *testing.T, url string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l}
	var carrying sync.WaitGroup
	carrying.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			carrying.Go(func() { w.carry(near, hostOf(url)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.cut()
		carrying.Wait()
	})
	return w
}

// url returns the URL of the server at the near end of the wire.
func (w *wire) url(server string) string {
	return strings.Replace(server, hostOf(server), w.listener.Addr().String(), 1)
}

// hostOf returns the host and port of an http URL.
func hostOf(url string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return host
}

// carry carries one connection.
func (w *wire) carry(near net.Conn, server string) {
	defer near.Close()
	far, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	w.ends = append(w.ends, near, far)
	w.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far) // until either side goes away
		near.Close()
	})
	_, _ = io.Copy(far, near)
	far.Close()
	back.Wait()
}

// cut breaks all connections of the moment.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, end := range w.ends {
		end.Close()
	}
	w.ends = nil
}
