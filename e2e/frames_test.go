package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A badFrame is a frame that breaks a rule of messages.
type badFrame struct {
	title string
	frame string
	code  int
	id    string // of the answer, as raw JSON; "" for an answer without one
	// silent is true for a frame that looks like a notification or a response, to which there is
	// no answer on a pipe.
	silent bool
	// status of HTTP, if not 400.
	status int
	// httpOnly: one line of a pipe cannot carry it.
	httpOnly bool
}

const maxDepth, maxFrame = 64, 4 << 20

// badFrames break the strict rules of messages, one rule each. The id 1 in them is the
// id of a call that runs meanwhile.
func badFrames() []badFrame {
	ok := `{"jsonrpc":"2.0","id":9,"method":"ping"}`
	syntax := func(title, frame string) badFrame { return badFrame{title: title, frame: frame, code: codeParse} }
	invalid := func(title, frame, id string) badFrame {
		return badFrame{title: title, frame: frame, code: codeInvalidRequest, id: id}
	}
	silent := func(b badFrame) badFrame { b.silent = true; return b }
	badID := func(id string) badFrame {
		return invalid("id "+id, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, "")
	}
	return []badFrame{
		// JSON
		syntax("not JSON", "ping"),
		syntax("half an object", ok[:len(ok)-1]),
		syntax("comma too many", ok[:len(ok)-1]+",}"),
		syntax("trailing bytes", ok+" x"),
		syntax("two messages", ok+ok),
		syntax("NUL at the end", ok+"\x00"),
		syntax("NUL in a string", strings.Replace(ok, "ping", "pi\x00ng", 1)),
		syntax("byte order mark", "\ufeff"+ok),
		syntax("single quotes", strings.ReplaceAll(ok, `"`, "'")),
		syntax("invalid UTF-8 in a value", strings.Replace(ok, "ping", "\xff", 1)),
		syntax("invalid UTF-8 in a name", strings.Replace(ok, "method", "\xc3", 1)),
		syntax("half a surrogate pair", strings.Replace(ok, "ping", `\ud800`, 1)),
		syntax("duplicate name", `{"jsonrpc":"2.0","id":9,"method":"ping","id":9}`),
		syntax("duplicate name, escaped", `{"jsonrpc":"2.0","id":9,"method":"ping","meth\u006fd":"ping"}`),
		syntax("duplicate name in params", `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"echo","name":"panic"}}`),
		syntax("duplicate name in _meta", `{"jsonrpc":"2.0","id":9,"method":"ping","params":{"_meta":{"a":1,"a":1}}}`),
		syntax("duplicate name in arguments", `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"panic","arguments":{"x":[{"y":1,"y":2}]}}}`),
		{title: "too deep", frame: `{"jsonrpc":"2.0","id":9,"method":"ping","params":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`,
			code: codeParse, id: "9"},
		syntax("far too deep", `{"jsonrpc":"2.0","id":9,"method":"ping","params":`+strings.Repeat(`{"a":`, 100_000)),
		{title: "too large", frame: `{"jsonrpc":"2.0","id":9,"method":"ping","params":{"a":"` + strings.Repeat("x", maxFrame) + `"}}`,
			code: codeInvalidRequest, status: http.StatusRequestEntityTooLarge},
		{title: "a line break in a string", frame: strings.Replace(ok, "ping", "pi\nng", 1), code: codeParse, httpOnly: true},
		{title: "nothing", frame: "", code: codeParse, httpOnly: true}, // an empty line is ignored

		// A single object
		invalid("empty batch", "[]", ""),
		invalid("batch", "["+ok+"]", ""),
		invalid("a number", "9", ""),
		invalid("a string", `"ping"`, ""),
		invalid("null", "null", ""),
		invalid("an empty object", "{}", ""),

		// Ids
		badID("1.5"), badID("null"), badID("true"), badID("false"), badID("{}"), badID("[1]"), badID("1e400"),

		// Members
		invalid("no jsonrpc", `{"id":9,"method":"ping"}`, "9"),
		invalid("jsonrpc 1.0", `{"jsonrpc":"1.0","id":9,"method":"ping"}`, "9"),
		invalid("jsonrpc a number", `{"jsonrpc":2.0,"id":9,"method":"ping"}`, "9"),
		invalid("JSONRPC", `{"JSONRPC":"2.0","id":9,"method":"ping"}`, "9"),
		invalid("no method", `{"jsonrpc":"2.0","id":9}`, "9"),
		invalid("Method", `{"jsonrpc":"2.0","id":9,"Method":"ping"}`, "9"),
		invalid("method a number", `{"jsonrpc":"2.0","id":9,"method":1}`, "9"),
		invalid("params a string", `{"jsonrpc":"2.0","id":"nine","method":"ping","params":"x"}`, `"nine"`),
		invalid("params null", `{"jsonrpc":"2.0","id":9.0,"method":"ping","params":null}`, "9.0"),
		invalid("method and result", `{"jsonrpc":"2.0","id":9,"method":"ping","result":{}}`, "9"),
		silent(invalid("ID is no id", `{"jsonrpc":"2.0","ID":9,"method":1}`, "")),
		silent(invalid("result and error", `{"jsonrpc":"2.0","id":9,"result":{},"error":{"code":1,"message":"x"}}`, "")),
		silent(invalid("a response without an id", `{"jsonrpc":"2.0","result":{}}`, "")),

		// The id of a request that is in flight: the error must not look like its answer.
		{title: "broken, with a live id", frame: `{"jsonrpc":"1.0","id":1,"method":"ping"}`, code: codeInvalidRequest, id: "1"},
	}
}

// Each bad frame is sent to the endpoint while a legacy and a modern call run.
func TestBadFramesOverHTTPAffectNoOtherCall(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t)
	session := s.initialize(t)
	legacy := s.begin(t, session.headers(), sleeping(1).inLegacy().frame())
	r := sleeping(1)
	modern := s.begin(t, r.headers(), r.frame())
	s.awaitCount(t, "sleep", 2)
	before := s.metrics(t)

	frames := badFrames()
	for name, headers := range map[string]http.Header{"no headers": plainHeaders(), "legacy session": session.headers()} {
		for _, bad := range frames {
			if bad.id == "" && name == "no headers" {
				bad.id = "null" // this could be a client of 2025-06-18 or before
			}
			a := s.send(t, http.MethodPost, headers.Clone(), bad.frame)
			status := bad.status
			if status == 0 {
				status = http.StatusBadRequest
			}
			if a.status != status || a.code() != bad.code || string(a.ID) != bad.id && !bad.silent {
				t.Errorf("%s: status %d, %.300s; want status %d, code %d, id %q", bad.title, a.status, a.body, status, bad.code, bad.id)
			}
			if !a.isJSON() {
				t.Errorf("%s: the answer has the type %q", bad.title, a.header.Get("Content-Type"))
			}
		}
	}

	after := s.metrics(t)
	s.checkUntouched(t, before, after, 2*len(frames))
	s.awaitCount(t, "sleep", 2)
	if a := s.send(t, http.MethodPost, session.headers(), call(2, "echo", object{"text": "x"}).inLegacy().frame()); a.Result == nil {
		t.Errorf("the session afterwards: %d %s", a.status, a.body)
	}
	cancel := request{method: "notifications/cancelled", params: object{"requestId": 1}, legacy: true}
	s.send(t, http.MethodPost, session.headers(), cancel.frame())
	if a := legacy.wait(t); a.code() != -32800 {
		t.Errorf("the legacy call: %s", a.body)
	}
	modern.drop()
	s.settled(t)
}

// Each bad frame is sent as a line while a call runs. A session sends a limited number of errors
// that belong to no request, so that the test uses several sessions.
func TestBadFramesOverStdioAffectNoOtherCall(t *testing.T) {
	frames := slices.DeleteFunc(badFrames(), func(bad badFrame) bool { return bad.httpOnly })
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			for some := range slices.Chunk(frames, 8) {
				sendBadLines(t, era == "legacy", some)
			}
		})
	}
}

func sendBadLines(t *testing.T, legacy bool, frames []badFrame) {
	t.Helper()
	p := connect(serveStdio(t))
	good := func(r request) string { r.legacy = legacy; return r.frame() }
	if legacy {
		p.handshake(t)
	}
	p.write(t, good(sleeping(1)))
	p.awaitRunning(t, "sleep")
	before := p.metrics(t)
	for i, bad := range frames {
		p.write(t, bad.frame)
		if !bad.silent {
			id := bad.id
			if id == "1" {
				id = "" // it would resolve the call that runs
			}
			if m := p.read(t); m.code() != bad.code || string(m.ID) != id {
				t.Errorf("%s: code %d, id %s; want %d, %q", bad.title, m.code(), m.ID, bad.code, id)
			}
		}
		mark := fmt.Sprint("after ", i)
		p.write(t, good(call(mark, "echo", object{"text": mark})))
		if m := p.read(t); m.Result == nil || string(m.ID) != encode(mark) {
			t.Errorf("%s: the call after it: %+v", bad.title, m)
		}
	}
	p.write(t, "") // an empty line is nothing
	after := p.metrics(t)
	p.checkUntouched(t, before, after, len(frames))
	if n := after.sum("vitrine_requests_admitted_total") - before.sum("vitrine_requests_admitted_total"); n != float64(len(frames)) {
		t.Errorf("%v requests were admitted, want the %d between the bad frames", n, len(frames))
	}
	p.awaitRunning(t, "sleep")
	p.write(t, good(request{method: "notifications/cancelled", params: object{"requestId": 1}}))
	p.checkCancelled(t, "client_cancel", "cancelled")
}

// A peer that sends only garbage gets a limited number of errors, and is disconnected in the end.
func TestGarbageEndsTheConnection(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	p := connect(serveStdio(t, otlp.env()))
	p.write(t, sleeping(1).frame())
	p.awaitRunning(t, "sleep")
	for range 99 {
		p.write(t, "garbage")
	}
	if m := p.ask(t, call(2, "echo", object{"text": "x"})); m.Result == nil {
		t.Errorf("after 99 bad frames: %+v", m)
	}
	if n := len(p.stdout.snapshot()); n >= 99 {
		t.Errorf("%d answers to garbage", n)
	}
	p.awaitRunning(t, "sleep")
	for range 100 {
		p.write(t, "garbage")
	}
	p.exited(t, 0)
	checkCancelSpan(t, otlp, "transport_error", "dropped", "closed_writer", "transport_error")
	if n := otlp.sum("vitrine.limit.reached", "vitrine.limit", "max_consecutive_malformed"); n != 1 {
		t.Errorf("vitrine.limit.reached: %v", n)
	}
	otlp.conserved(t)
}

// checkUntouched compares two scrapes between which n bad frames came.
func (s *server) checkUntouched(t *testing.T, before, after metrics, n int) {
	t.Helper()
	grown := func(name string, labels ...string) float64 {
		return after.sum(name, labels...) - before.sum(name, labels...)
	}
	for _, name := range []string{
		"vitrine_requests_cancelled_total", "vitrine_responses_dropped_total", "vitrine_sessions_closed_total",
		"vitrine_handler_panics_total", "vitrine_notifications_dropped_total", "vitrine_sessions_active",
	} {
		if n := grown(name); n != 0 {
			t.Errorf("%s has grown by %v", name, n)
		}
	}
	// A broken frame that looks like a response is counted as a response.
	if got := grown("vitrine_messages_received_total", "kind", "invalid") + grown("vitrine_messages_received_total", "kind", "response"); got != float64(n) {
		t.Errorf("%v invalid messages are counted, want %d", got, n)
	}
	if got := grown("vitrine_frames_ignored_total") + grown("vitrine_requests_rejected_total"); got != float64(n) {
		t.Errorf("%v frames were ignored or rejected, want %d", got, n)
	}
}

// awaitCount waits until n calls of a tool are running.
func (s *server) awaitCount(t *testing.T, tool string, n int) {
	t.Helper()
	eventually(t, func() error {
		rep, err := s.requests()
		if err != nil {
			return err
		}
		running := 0
		for _, r := range rep.Requests {
			if r.Tool == tool && r.State == "running" {
				running++
			}
		}
		if running != n {
			return fmt.Errorf("%d of %d calls are running: %+v", running, n, rep.Requests)
		}
		return nil
	})
}

// Ids come back byte for byte, and 1, 1.0 and 1e0 are one id.
func TestIDsAreEchoedByteForByte(t *testing.T) {
	t.Parallel()
	p := connect(serveStdio(t))
	for _, id := range []string{"0", "-1", "1.0", "1e0", "9007199254740993", "123456789012345678901234567890", `""`, `"1"`, `"\u0031"`, `"🏺"`} {
		p.write(t, strings.Replace(call("ID", "echo", object{"text": "x"}).frame(), `"id":"ID"`, `"id":`+id, 1))
		if m := p.read(t); m.Result == nil || string(m.ID) != id {
			t.Errorf("id %s: answered with id %s, %+v", id, m.ID, m)
		}
	}
	p.write(t, sleeping(1).frame())
	p.awaitRunning(t, "sleep")
	for _, id := range []string{"1", "1.0", "1e0"} {
		p.write(t, strings.Replace(call("ID", "echo", object{"text": "x"}).frame(), `"id":"ID"`, `"id":`+id, 1))
		m := p.read(t)
		var data struct {
			Reason string
			ID     json.RawMessage
		}
		if m.Error != nil {
			_ = json.Unmarshal(m.Error.Data, &data)
		}
		if m.code() != codeInvalidRequest || len(m.ID) > 0 || data.Reason != "duplicate_id" || string(data.ID) != id {
			t.Errorf("a second request with the id %s: id %s, %+v", id, m.ID, m)
		}
	}
	if m := p.ask(t, call("1", "echo", object{"text": "x"})); m.Result == nil {
		t.Errorf(`the string "1" is another id: %+v`, m)
	}
	if n := p.metrics(t).sum("vitrine_requests_rejected_total", "reason", "duplicate_id"); n != 3 {
		t.Errorf("%v duplicates were rejected, want 3", n)
	}
	p.write(t, request{method: "notifications/cancelled", params: object{"requestId": json.RawMessage("1.0")}}.frame())
	p.settled(t)
}
