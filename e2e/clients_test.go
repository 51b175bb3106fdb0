package e2e

import (
	"fmt"
	"slices"
	"testing"
)

// TestClients drives both official clients over both transports.
func TestClients(t *testing.T) {
	for _, c := range []struct {
		pkg, mode, transport string
		version              string
		cause                string // of a call that the client cancels
	}{
		// Over HTTP a modern client cancels by hanging up, and a legacy one by saying so.
		{"client", "modern", "http", modernVersion, "client_disconnect"},
		{"client", "auto", "http", modernVersion, "client_disconnect"},
		{"client", "legacy", "http", legacyVersion, "client_cancel"},
		{"sdk", "legacy", "http", legacyVersion, "client_cancel"},
		{"client", "modern", "stdio", modernVersion, "client_cancel"},
		{"client", "auto", "stdio", modernVersion, "client_cancel"},
		{"client", "legacy", "stdio", legacyVersion, "client_cancel"},
		{"sdk", "legacy", "stdio", legacyVersion, "client_cancel"},
	} {
		t.Run(c.pkg+"/"+c.mode+"/"+c.transport, func(t *testing.T) {
			node := node(t, "e2e/clients")
			t.Parallel()
			d, s, connected := driveServer(t, node, c.pkg, c.mode, c.transport)
			if connected.Version != c.version {
				t.Errorf("negotiated %q, want %q", connected.Version, c.version)
			}
			checkList(t, d)
			checkEcho(t, d)
			checkProgress(t, d)
			checkParallel(t, d)
			checkFailures(t, d)
			checkCancel(t, d, s, c.cause, "e2e-"+c.pkg, c.version)
			checkEcho(t, d) // all is well after a cancellation
			s.settled(t)
			d.do(t, "close", nil)
			if status := d.exit(t); !status.Exited() || status.ExitStatus() != 0 {
				t.Errorf("the driver ended with %v", status)
			}
			if c.transport == "stdio" {
				s.stderr.await(t, "record drain.end of the server", 0, isRecord("drain.end"))
			}
		})
	}
}

// driveServer starts a server and a client of it. Over stdio the client starts the
// server, whose log then comes out of the client.
func driveServer(t *testing.T, node, pkg, mode, transport string) (*driver, *server, reply) {
	t.Helper()
	if transport == "http" {
		s := serveHTTP(t)
		d, connected := drive(t, node, nil, pkg, mode, transport, s.mcp)
		return d, s, connected
	}
	p := everything(withArgs("--stdio"))
	d, connected := drive(t, node, nil, append([]string{pkg, mode, transport, p.path}, p.args...)...)
	s := &server{process: d.process}
	s.findEndpoints(t)
	t.Cleanup(func() { s.checkLog(t) })
	return d, s, connected
}

func checkList(t *testing.T, d *driver) {
	t.Helper()
	r := d.do(t, "list", nil)
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	for _, want := range []string{"echo", "sleep", "progress", "panic", "big"} {
		if !slices.Contains(names, want) {
			t.Errorf("no tool %q in the list %q", want, names)
		}
	}
}

func checkEcho(t *testing.T, d *driver) {
	t.Helper()
	const text = "a “quoted” text\nin two lines, 🏺"
	r := d.call(t, "echo", object{"text": text})
	checkEchoed(t, r, text)
}

func checkEchoed(t *testing.T, r reply, text string) {
	t.Helper()
	if want := encode(object{"text": text}); r.Error != nil || r.Result == nil || string(r.Result.StructuredContent) != want {
		t.Errorf("echo: %+v %+v, want the structured content %s", r.Result, r.Error, want)
	}
}

func checkProgress(t *testing.T, d *driver) {
	t.Helper()
	const steps = 5
	r, progress := d.await(t, d.send(t, "call", object{"name": "progress", "arguments": object{"steps": steps, "ms": 1}, "progress": true}))
	if r.Result == nil || r.Result.IsError {
		t.Errorf("progress: %+v %+v", r.Result, r.Error)
	}
	// Both clients forget the call's token when they parse the answer, before they hand
	// on a notification that came in the same piece: they lose what comes right before an
	// answer. That it was sent is tested without them.
	if want := []float64{1, 2, 3, 4, 5}; len(progress) == 0 || !slices.Equal(progress, want[:len(progress)]) {
		t.Errorf("progress: %v, want the beginning of %v", progress, want)
	}
}

// checkParallel calls many tools at once; the answers must not be mixed up, nor wait
// for a slow one.
func checkParallel(t *testing.T, d *driver) {
	t.Helper()
	slow := d.send(t, "call", object{"name": "sleep", "arguments": object{"ms": 60_000}})
	ids := map[int]string{}
	for i := range 20 {
		text := fmt.Sprint("parallel ", i)
		ids[d.send(t, "call", object{"name": "echo", "arguments": object{"text": text}})] = text
	}
	for id, text := range ids {
		r, _ := d.await(t, id)
		checkEchoed(t, r, text)
	}
	d.do(t, "cancel", object{"call": slow})
	if r, _ := d.await(t, slow); r.Error == nil {
		t.Errorf("the slow call ended with %+v", r.Result)
	}
}

func checkFailures(t *testing.T, d *driver) {
	t.Helper()
	if r := d.call(t, "test_error_handling", object{}); r.Result == nil || !r.Result.IsError || len(r.Result.Content) == 0 {
		t.Errorf("a tool's error: %+v %+v", r.Result, r.Error)
	}
	if r := d.call(t, "echo", object{"txt": 1}); r.Result == nil || !r.Result.IsError || len(r.Result.Content) == 0 {
		t.Errorf("arguments that do not fit: %+v %+v", r.Result, r.Error)
	}
	if r := d.call(t, "no-such-tool", object{}); r.Error == nil || r.Error.Code != float64(codeInvalidParams) {
		t.Errorf("an unknown tool: %+v %+v", r.Result, r.Error)
	}
	if r := d.call(t, "panic", object{}); r.Error == nil || r.Error.Code != float64(codeInternal) {
		t.Errorf("a panic: %+v %+v", r.Result, r.Error)
	}
}

// checkCancel cancels a running call, and looks for it in the server.
func checkCancel(t *testing.T, d *driver, s *server, cause, client, version string) {
	t.Helper()
	before := s.settled(t).Totals
	id := d.send(t, "call", object{"name": "sleep", "arguments": object{"ms": 60_000}})
	row := s.awaitRunning(t, "sleep")
	if row.Client != client || row.ClientVersion != "1.2.3" || row.ProtocolVersion != version {
		t.Errorf("in flight as %+v", row)
	}
	d.do(t, "cancel", object{"call": id, "reason": "changed my mind"})
	if r, _ := d.await(t, id); r.Error == nil {
		t.Errorf("the cancelled call ended with %+v", r.Result)
	}
	after := s.settled(t).Totals
	if after.Cancelled[cause] != before.Cancelled[cause]+1 {
		t.Errorf("cancelled: %v, before: %v, want one more %s", after.Cancelled, before.Cancelled, cause)
	}
	m := s.metrics(t)
	if n := m.sum("vitrine_cancel_unwind_seconds", "tool", "sleep", "cause", cause); n != 2 { // checkParallel was the first
		t.Errorf("%v handlers have returned after %s, want 2", n, cause)
	}
	if n := m.sum("vitrine_requests_cancelled_total"); n != 2 {
		t.Errorf("%v requests were cancelled, want 2", n)
	}
}
