package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/transport"
)

// patience is the time that a client waits for something that must come.
const patience = 30 * time.Second

// files is a pipe of the operating system in both directions.
type files struct{ in, out *os.File }

func (f *files) Read(p []byte) (int, error)         { return f.in.Read(p) }
func (f *files) Write(p []byte) (int, error)        { return f.out.Write(p) }
func (f *files) SetWriteDeadline(t time.Time) error { return f.out.SetWriteDeadline(t) }
func (f *files) SetReadDeadline(t time.Time) error  { return f.in.SetReadDeadline(t) }
func (f *files) Close() error                       { return errors.Join(f.in.Close(), f.out.Close()) }

// nearEnd is a client's end of a connection.
type nearEnd interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
}

// A pipeClient is one client of a byte stream.
type pipeClient struct {
	w     *world
	in    *bufio.Reader
	conn  nearEnd
	hush  func() error // closes the sending half; nil if the pipe has no halves
	ended chan error   // the error of ServePipe

	mu sync.Mutex // guards writes, which several goroutines do
}

// connect opens a connection, in memory or of the operating system.
func (w *world) connect() *pipeClient { return w.connectTo(w.srv) }

func (w *world) connectTo(to *server.Server) *pipeClient {
	c := &pipeClient{w: w, ended: make(chan error, 1)}
	var far transport.Pipe
	if rand.IntN(2) == 0 {
		srv, near := transport.Memory()
		far, c.conn = srv, near
	} else {
		inR, inW, err1 := os.Pipe()
		outR, outW, err2 := os.Pipe()
		if err := errors.Join(err1, err2); err != nil {
			panic(err)
		}
		near := &files{in: outR, out: inW}
		far, c.conn, c.hush = &files{in: inR, out: outW}, near, inW.Close
	}
	c.in = bufio.NewReaderSize(c.conn, 64<<10)
	w.pipes.Go(func() { c.ended <- to.ServePipe(context.Background(), far) })
	return c
}

// close goes without a word and waits until the server has noticed.
func (c *pipeClient) close() {
	c.conn.Close()
	select {
	case err := <-c.ended:
		if err != nil && !errors.Is(err, server.ErrAbandoned) {
			c.w.fault("pipe: ServePipe returned %v", err)
		}
	case <-time.After(patience):
		c.w.fault("pipe: ServePipe does not return")
	}
}

// send writes frames, one on a line; false if the connection is gone.
func (c *pipeClient) send(frames ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range frames {
		if _, err := io.WriteString(c.conn, f+"\n"); err != nil {
			return false
		}
	}
	return true
}

// read returns the next message; nil at the end of the stream.
func (c *pipeClient) read() *message {
	m, err := c.readWithin(patience)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.w.fault("pipe: nothing came for %v", patience)
	}
	return m
}

func (c *pipeClient) readWithin(d time.Duration) (*message, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(d))
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	m := new(message)
	if err := json.Unmarshal(line, m); err != nil {
		c.w.fault("pipe: a corrupt frame: %.100s", line)
	}
	return m, nil
}

// handshake is that of a legacy client.
func (c *pipeClient) handshake() bool {
	go c.send(initializeFrame)
	m := c.read()
	go c.send(initializedFrame)
	return m != nil && m.Result != nil
}

// pipeEcho keeps a window of calls in flight, of both eras, and checks that each
// gets its own answer once.
func (w *world) pipeEcho(ctx context.Context) {
	c := w.connect()
	defer c.close()
	if !c.handshake() {
		w.fault("pipe: no handshake")
		return
	}
	var mu sync.Mutex
	want := map[string]string{}
	window := make(chan struct{}, 16)
	gone, stop := make(chan struct{}), make(chan struct{})
	defer close(gone)
	go func() {
		defer close(stop)
		for i := 0; ctx.Err() == nil; i++ {
			select {
			case window <- struct{}{}:
			case <-gone:
				return
			}
			id, text := fmt.Sprint(i), fmt.Sprint("text-", rand.Uint64())
			if i%2 == 0 {
				id = fmt.Sprintf("%q", id)
			}
			mu.Lock()
			want[id] = text
			mu.Unlock()
			w.begin()
			if !c.send(callFrame(id, "echo", fmt.Sprintf(`{"text":%q}`, text), i%3 == 0)) {
				w.fault("pipe: a write failed")
				return
			}
		}
	}()
	for {
		mu.Lock()
		left := len(want)
		mu.Unlock()
		if left == 0 {
			select {
			case <-stop:
				return
			default:
				nap(time.Millisecond)
				continue
			}
		}
		m := c.read()
		if m == nil {
			w.fault("pipe: the stream ended with %d calls in flight", left)
			return
		}
		mu.Lock()
		text, ok := want[string(m.ID)]
		delete(want, string(m.ID))
		mu.Unlock()
		if !ok {
			w.fault("pipe: an answer to nothing, or a second one")
			return
		}
		if m.text() != text && !m.refused() {
			w.fault("pipe: the answer of another call: %+v", m.Error)
		}
		<-window
	}
}

// pipeReuse sends every call with the same id.
func (w *world) pipeReuse(ctx context.Context) {
	c := w.connect()
	defer c.close()
	if !c.handshake() {
		return
	}
	for ctx.Err() == nil {
		text := fmt.Sprint("text-", rand.Uint64())
		w.begin()
		if !c.send(callFrame("1", "echo", fmt.Sprintf(`{"text":%q}`, text), false)) {
			w.fault("pipe: a write failed")
			return
		}
		if m := c.read(); m == nil || m.text() != text && !m.refused() {
			w.fault("pipe: an id that is used again got %+v", m)
			return
		}
	}
}

// pipeCancel cancels calls that cannot end by themselves: none may be answered.
func (w *world) pipeCancel(ctx context.Context) {
	c := w.connect()
	defer c.close()
	if !c.handshake() {
		return
	}
	for i := 0; ctx.Err() == nil; i++ {
		id, tool := fmt.Sprint("1", i), []string{"sleep", "ask"}[i%2]
		arguments := `{"ms":60000}`
		if tool == "ask" {
			arguments = `{}`
		}
		w.begin()
		w.begin()
		if !c.send(callFrame(id, tool, arguments, false), cancelFrame(id), cancelFrame(id),
			callFrame(`"mark"`, "echo", `{"text":"m"}`, false)) {
			w.fault("pipe: a write failed")
			return
		}
		for {
			m := c.read()
			if m == nil {
				w.fault("pipe: the stream ended under a cancel")
				return
			}
			if m.Method == "" && string(m.ID) == id && m.reason() != "overload" {
				w.fault("pipe: a cancelled %s was answered: %+v", tool, m.Error)
			}
			if m.Method == "" && string(m.ID) == `"mark"` {
				break
			}
		}
	}
}

// pipeAsk answers the server's questions rightly, late, twice or not at all.
func (w *world) pipeAsk(ctx context.Context) {
	c := w.connect()
	defer c.close()
	if !c.handshake() {
		return
	}
	for i := 0; ctx.Err() == nil; i++ {
		id, want := fmt.Sprint(i), fmt.Sprintf(`{"n":"%d"}`, rand.Uint64())
		w.begin()
		if !c.send(callFrame(id, "ask", `{}`, false)) {
			return
		}
		for {
			m := c.read()
			if m == nil {
				w.fault("pipe: the stream ended under an ask")
				return
			}
			if m.Method != "" && m.ID != nil {
				for range 1 + rand.IntN(2) {
					c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, want))
				}
				continue
			}
			if m.Method == "" && string(m.ID) == id {
				if m.text() != want && !m.refused() && (m.Result == nil || !m.Result.IsError) {
					w.fault("pipe: an ask got another answer: %+v", m)
				}
				break
			}
		}
	}
}

// pipeGo connects, sends calls and leaves in one of many ways.
func (w *world) pipeGo(ctx context.Context) {
	for ctx.Err() == nil {
		w.leaveOnce()
	}
}

func (w *world) leaveOnce() {
	hurried := rand.IntN(2) == 0
	c := w.connect()
	if hurried {
		c.close()
		c = w.connectTo(w.hasty)
	}
	defer c.close()
	n := 1 + rand.IntN(10)
	frames := make([]string, n)
	for i := range frames {
		frames[i] = callFrame(fmt.Sprint(i), []string{"sleep", "echo", "progress"}[rand.IntN(3)], `{"ms":50,"n":20,"text":"x"}`, true)
		if rand.IntN(60) == 0 {
			frames[i] = callFrame(fmt.Sprint(i), "stubborn", `{"ms":1000}`, true)
		}
		w.begin()
	}
	switch rand.IntN(3) {
	case 0: // at once
		go c.send(frames...)
		nap(20 * time.Millisecond)
	case 1: // after a few answers
		go c.send(frames...)
		for range n / 2 {
			if c.read() == nil {
				return
			}
		}
	default: // closes its output, and must get every answer
		if c.hush == nil {
			go c.send(frames...)
			nap(5 * time.Millisecond)
			return
		}
		go func() {
			c.send(frames...)
			_ = c.hush()
		}()
		seen := map[string]bool{}
		for m := c.read(); m != nil; m = c.read() {
			if m.Method == "" && seen[string(m.ID)] {
				w.fault("pipe: two answers to one id")
			}
			if m.Method == "" {
				seen[string(m.ID)] = true
			}
		}
		if len(seen) != n && !hurried {
			w.fault("pipe: %d of %d calls were answered after the half-close", len(seen), n)
		}
	}
}

// pipeDeaf sends and does not read, until it goes or the server gives it up.
func (w *world) pipeDeaf(ctx context.Context) {
	for ctx.Err() == nil {
		c := w.connectTo([]*server.Server{w.srv, w.hasty}[rand.IntN(2)])
		go func() {
			for i := range 3000 {
				w.begin()
				if !c.send(callFrame(fmt.Sprint(i), []string{"big", "progress"}[i%2], `{"n":2000}`, true)) {
					return
				}
			}
		}()
		select {
		case <-time.After(hasty.WriteTimeout + 500*time.Millisecond):
		case <-ctx.Done():
		}
		c.close()
	}
}

// pipeFlood sends as fast as it can. Every request is answered once, be it with a refusal.
func (w *world) pipeFlood(ctx context.Context) {
	for ctx.Err() == nil {
		c := w.connect()
		n := 500 + rand.IntN(1500)
		go func() {
			for i := range n {
				w.begin()
				if !c.send(callFrame(fmt.Sprint(i), "echo", `{"text":"x"}`, true)) {
					return
				}
			}
		}()
		seen := map[string]bool{}
		for range n {
			m, err := c.readWithin(time.Minute)
			if m == nil || seen[string(m.ID)] {
				w.fault("pipe: flood: no answer to %d of %d requests, or a second one: %v", n-len(seen), n, err)
				break
			}
			seen[string(m.ID)] = true
		}
		c.close()
	}
}

// pipeGarbage mixes garbage with calls, which are answered nevertheless.
func (w *world) pipeGarbage(ctx context.Context) {
	for ctx.Err() == nil {
		c := w.connect()
		n := 20
		go func() {
			for i := range n {
				w.begin()
				if !c.send(garbage(), garbage(), callFrame(fmt.Sprintf(`"call-%d"`, i), "echo", `{"text":"g"}`, true)) {
					return
				}
			}
		}()
		for answered := 0; answered < n; {
			m := c.read()
			if m == nil {
				w.fault("pipe: the stream ended under garbage")
				break
			}
			if len(m.ID) > 6 && string(m.ID[:6]) == `"call-` {
				answered++
			}
		}
		c.close()
	}
}
