package e2e

import (
	"fmt"
	"slices"
	"testing"
)

// A peer is a library in one of the modes that it has, over one transport.
type peer struct {
	library, mode, transport string
	version                  string
	cause                    string // of a call that the client cancels
}

func (p peer) modern() bool { return p.version == modernVersion }

// peers returns all peers. Over HTTP a modern client cancels by disconnecting, and a legacy one by
// a notification.
func peers() []peer {
	return []peer{
		{"client", "modern", "http", modernVersion, "client_disconnect"},
		{"client", "auto", "http", modernVersion, "client_disconnect"},
		{"client", "legacy", "http", legacyVersion, "client_cancel"},
		{"sdk", "legacy", "http", legacyVersion, "client_cancel"},
		{"gosdk", "auto", "http", modernVersion, "client_disconnect"},
		{"gosdk", legacyVersion, "http", legacyVersion, "client_cancel"},
		{"mcpgo", "auto", "http", modernVersion, "client_disconnect"},
		// A legacy mcp-go sends no cancel to a server over HTTP (its client/client.go, line 311), so
		// that a cancelled call goes on until its session ends.
		{"mcpgo", legacyVersion, "http", legacyVersion, "session_delete"},

		{"client", "modern", "stdio", modernVersion, "client_cancel"},
		{"client", "auto", "stdio", modernVersion, "client_cancel"},
		{"client", "legacy", "stdio", legacyVersion, "client_cancel"},
		{"sdk", "legacy", "stdio", legacyVersion, "client_cancel"},
		{"gosdk", "auto", "stdio", modernVersion, "client_cancel"},
		{"gosdk", legacyVersion, "stdio", legacyVersion, "client_cancel"},
		{"mcpgo", "auto", "stdio", modernVersion, "client_cancel"},
		{"mcpgo", legacyVersion, "stdio", legacyVersion, "client_cancel"},
	}
}

// A client is a peer that is connected to a server.
type client struct {
	*driver
	peer
	server *server
	// name is the name that the client sends.
	name    string
	session string
	// bridged is true for a legacy client behind a modern proxy.
	bridged bool
	// abandoned counts the calls that it has cancelled without telling the server.
	abandoned uint64
}

// abandons reports that the client sends the server nothing when it cancels.
func (c *client) abandons() bool { return c.bridged || c.cause == "session_delete" }

// features are the features that every client uses, in this order.
var features = []struct {
	name  string
	check func(*testing.T, *client)
}{
	{"list", checkList},
	{"call", checkEcho},
	{"progress", checkProgress},
	{"header", checkHeader},
	{"parallel", checkParallel},
	{"errors", checkFailures},
	{"cancel", checkCancel},
	{"call after cancel", checkEcho},
	{"prompts", checkPrompts},
	{"resources", checkResources},
	{"completion", checkCompletion},
	{"logging", checkLogging},
	{"list_changed", checkListChanged},
	{"subscribe", checkSubscribe},
	{"sampling", checkSampling},
	{"elicitation", checkElicitation},
	{"cancel while asking", checkCancelAsking},
	{"roots", checkRoots},
	{"rounds", checkRounds},
	{"ping", checkPing},
}

// TestClients uses all features with all clients, over both transports.
func TestClients(t *testing.T) {
	for _, p := range peers() {
		t.Run(p.library+"/"+p.mode+"/"+p.transport, func(t *testing.T) {
			driver := command(t, p.library, p.mode, p.transport)
			t.Parallel()
			c := connectClient(t, driver, p)
			if c.version != p.version {
				t.Errorf("negotiated %q, want %q", c.version, p.version)
			}
			for _, f := range features {
				t.Run(f.name, func(t *testing.T) { f.check(t, c) })
			}
			checkEnd(t, c)
		})
	}
}

// connectClient starts a server and a client of it. Over stdio the client starts the
// server, whose log then comes out of the client.
func connectClient(t *testing.T, driver program, p peer, adjusts ...adjust) *client {
	t.Helper()
	c := &client{peer: p, name: "e2e-" + p.library}
	var connected reply
	if p.transport == "http" {
		c.server = serveHTTP(t, adjusts...)
		driver.args = append(driver.args, c.server.mcp)
		c.driver, connected = drive(t, driver)
	} else {
		s := everything(withArgs("--stdio"))
		driver.args = append(append(driver.args, s.path), s.args...)
		c.driver, connected = drive(t, driver)
		c.server = &server{process: c.driver.process}
		c.server.findEndpoints(t)
		t.Cleanup(func() { c.server.checkLog(t) })
	}
	c.version, c.session = connected.Version, connected.Session
	return c
}

// checkEnd ends the client. No request of it must remain.
func checkEnd(t *testing.T, c *client) {
	t.Helper()
	if !c.abandons() {
		c.server.settled(t)
	}
	c.must(t, "end", nil)
	if status := c.exit(t); !status.Exited() || status.ExitStatus() != 0 {
		t.Errorf("the driver ended with %v", status)
	}
	if c.transport == "stdio" {
		c.stderr.await(t, "record drain.end of the server", 0, isRecord("drain.end"))
		return
	}
	c.server.awaitSubscriptions(t, 0)
	rep := c.server.settled(t)
	if len(rep.Sessions) > 0 {
		t.Errorf("sessions that are left: %+v", rep.Sessions)
	}
	closed := c.server.metrics(t).sum("vitrine_sessions_closed_total", "cause", "session_delete")
	if want := count1(!c.modern()); closed != want {
		t.Errorf("%v sessions were deleted, want %v", closed, want)
	}
	if n := rep.Totals.Cancelled[c.cause]; c.abandons() && n != c.abandoned {
		t.Errorf("%d calls were cancelled with the session, want %d", n, c.abandoned)
	}
}

func checkList(t *testing.T, c *client) {
	var names []string
	for _, tool := range c.must(t, "list", nil).Result.Tools {
		names = append(names, tool.Name)
	}
	for _, want := range []string{"echo", "sleep", "progress", "panic", "big"} {
		if !slices.Contains(names, want) {
			t.Errorf("no tool %q in the list %q", want, names)
		}
	}
}

func checkEcho(t *testing.T, c *client) {
	const text = "a “quoted” text\nin two lines, 🏺"
	c.echoed(t, c.call(t, "echo", object{"text": text}), text)
}

// echoed checks the result of an echo.
func (c *client) echoed(t *testing.T, r reply, text string) {
	t.Helper()
	want, structured := encode(object{"text": text}), ""
	if c.version >= "2025-06-18" { // which has brought structured content
		structured = want
	}
	if r.Result == nil || r.text() != want || string(r.Result.StructuredContent) != structured {
		t.Errorf("echo: %+v %+v, want the text %s and the structured content %s", r.Result, r.Error, want, structured)
	}
}

func checkProgress(t *testing.T, c *client) {
	const steps = 5
	r, progress := c.await(t, c.send(t, "call", object{"name": "progress", "arguments": object{"steps": steps, "ms": 10}, "progress": true}))
	if r.Result == nil || r.Result.IsError {
		t.Errorf("progress: %+v %+v", r.Result, r.Error)
	}
	// Clients may lose a notification right before the answer. The official ones forget the call's
	// token when they parse the answer, before they pass on a notification from the same read, and
	// the others pass on both at the same time. Other tests check that it was sent.
	if want := []float64{1, 2, 3, 4, 5}; len(progress) == 0 || !slices.Equal(progress, want[:len(progress)]) {
		t.Errorf("progress: %v, want the beginning of %v", progress, want)
	}
}

// checkHeader calls a tool for which a modern client repeats an argument in a header.
func checkHeader(t *testing.T, c *client) {
	r := c.call(t, "test_x_mcp_header", object{"region": "Österreich"})
	switch {
	case c.bridged: // mcp-remote repeats the method and the name, and no arguments (dist/chunk-KJCT2FXL.js, line 32192)
		if r.code() != codeHeaderMismatch {
			t.Errorf("test_x_mcp_header without the header: %+v %+v", r.Result, r.Error)
		}
	case r.text() != "region: Österreich":
		t.Errorf("test_x_mcp_header: %+v %+v", r.Result, r.Error)
	}
}

// checkParallel calls many tools at once; the answers must not be mixed up, nor wait
// for a slow one.
func checkParallel(t *testing.T, c *client) {
	slow := c.send(t, "call", object{"name": "sleep", "arguments": object{"ms": 60_000}})
	ids := map[int]string{}
	for i := range 20 {
		text := fmt.Sprint("parallel ", i)
		ids[c.send(t, "call", object{"name": "echo", "arguments": object{"text": text}})] = text
	}
	for id, text := range ids {
		r, _ := c.await(t, id)
		c.echoed(t, r, text)
	}
	c.server.awaitRunning(t, "sleep")
	c.must(t, "cancel", object{"call": slow})
	c.abandoned++
	if r, _ := c.await(t, slow); r.Error == nil {
		t.Errorf("the slow call ended with %+v", r.Result)
	}
}

func checkFailures(t *testing.T, c *client) {
	if r := c.call(t, "test_error_handling", object{}); r.Result == nil || !r.Result.IsError || len(r.Result.Content) == 0 {
		t.Errorf("a tool's error: %+v %+v", r.Result, r.Error)
	}
	if r := c.call(t, "echo", object{"txt": 1}); r.Result == nil || !r.Result.IsError || len(r.Result.Content) == 0 {
		t.Errorf("arguments that do not fit: %+v %+v", r.Result, r.Error)
	}
	if r := c.call(t, "no-such-tool", object{}); r.code() != codeInvalidParams {
		t.Errorf("an unknown tool: %+v %+v", r.Result, r.Error)
	}
	if r := c.call(t, "panic", object{}); r.code() != codeInternal {
		t.Errorf("a panic: %+v %+v", r.Result, r.Error)
	}
}

// checkCancel cancels a running call, and looks for it in the server.
func checkCancel(t *testing.T, c *client) {
	if c.abandons() {
		checkAbandon(t, c)
		return
	}
	before := c.server.settled(t).Totals
	id := c.send(t, "call", object{"name": "sleep", "arguments": object{"ms": 60_000}})
	row := c.server.awaitRunning(t, "sleep")
	if row.Client != c.name || row.ClientVersion != "1.2.3" || row.ProtocolVersion != c.version {
		t.Errorf("in flight as %+v", row)
	}
	c.must(t, "cancel", object{"call": id, "reason": "changed my mind"})
	if r, _ := c.await(t, id); r.Error == nil {
		t.Errorf("the cancelled call ended with %+v", r.Result)
	}
	after := c.server.settled(t).Totals
	if after.Cancelled[c.cause] != before.Cancelled[c.cause]+1 {
		t.Errorf("cancelled: %v, before: %v, want one more %s", after.Cancelled, before.Cancelled, c.cause)
	}
	m := c.server.metrics(t)
	if n := m.sum("vitrine_cancel_unwind_seconds", "tool", "sleep", "cause", c.cause); n != 2 { // checkParallel was the first
		t.Errorf("%v handlers have returned after %s, want 2", n, c.cause)
	}
	if n := m.sum("vitrine_requests_cancelled_total"); n != 2 {
		t.Errorf("%v requests were cancelled, want 2", n)
	}
}

// checkAbandon cancels a call without a cancel for the server. A disconnect does not cancel a
// legacy call. And mcp-remote sends a modern server a message, which it ignores over HTTP, instead
// of disconnecting (dist/chunk-KJCT2FXL.js, line 33012).
func checkAbandon(t *testing.T, c *client) {
	id := c.send(t, "call", object{"name": "sleep", "arguments": object{"ms": 60_000}})
	c.server.awaitCount(t, "sleep", 2) // checkParallel was the first
	c.must(t, "cancel", object{"call": id})
	c.abandoned++
	if r, _ := c.await(t, id); r.Error == nil {
		t.Errorf("the abandoned call ended with %+v", r.Result)
	}
	checkEcho(t, c)
	c.server.awaitCount(t, "sleep", 2)
	if n := c.server.metrics(t).sum("vitrine_frames_ignored_total", "kind", "cancel", "reason", "wrong_transport"); n != 2*count1(c.bridged) {
		t.Errorf("%v cancels were ignored", n)
	}
}

// checkPing sends a ping, which the modern era does not have.
func checkPing(t *testing.T, c *client) {
	if !c.modern() {
		c.must(t, "ping", nil)
	}
}
