package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
)

// What a modern request over HTTP must contain, and its error if it does not.
func TestModernRequestsFollowTheRules(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t)
	good := call(1, "echo", object{"text": "x"})
	type change struct {
		title  string
		frame  func(object) // changes the body
		header func(http.Header)
		status int
		code   int
	}
	inMeta := func(f func(object)) func(object) {
		return func(m object) { f(m["params"].(object)["_meta"].(object)) }
	}
	const keyVersion, keyCapabilities = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
	method := func(name string) change {
		return change{"method " + name, func(m object) { m["method"] = name; m["params"].(object)["name"] = nil },
			func(h http.Header) { h.Set("Mcp-Method", name); h.Del("Mcp-Name") }, 404, codeMethodNotFound}
	}
	for _, c := range []change{
		{"nothing", nil, nil, 200, 0},
		{"no params", func(m object) { delete(m, "params") }, nil, 400, codeInvalidParams},
		{"params an array", func(m object) { m["params"] = []int{1} }, nil, 400, codeInvalidParams},
		{"no _meta", func(m object) { delete(m["params"].(object), "_meta") }, nil, 400, codeInvalidParams},
		{"_meta no object", func(m object) { m["params"].(object)["_meta"] = "x" }, nil, 400, codeInvalidParams},
		{"no version", inMeta(func(m object) { delete(m, keyVersion) }), nil, 400, codeInvalidParams},
		{"version a number", inMeta(func(m object) { m[keyVersion] = 1 }), nil, 400, codeInvalidParams},
		{"no capabilities", inMeta(func(m object) { delete(m, keyCapabilities) }), nil, 400, codeInvalidParams},
		{"capabilities no object", inMeta(func(m object) { m[keyCapabilities] = []int{} }), nil, 400, codeInvalidParams},
		{"no header of the version", nil, func(h http.Header) { h.Del("MCP-Protocol-Version") }, 400, codeHeaderMismatch},
		{"another version in the body", inMeta(func(m object) { m[keyVersion] = "2099-01-01" }), nil, 400, codeHeaderMismatch},
		{"a version that we do not know", inMeta(func(m object) { m[keyVersion] = "2099-01-01" }),
			func(h http.Header) { h.Set("MCP-Protocol-Version", "2099-01-01") }, 400, codeVersion},
		{"a legacy version", inMeta(func(m object) { m[keyVersion] = legacyVersion }),
			func(h http.Header) { h.Set("MCP-Protocol-Version", legacyVersion) }, 400, codeVersion},
		{"no Mcp-Method", nil, func(h http.Header) { h.Del("Mcp-Method") }, 400, codeHeaderMismatch},
		{"another Mcp-Method", nil, func(h http.Header) { h.Set("Mcp-Method", "Tools/Call") }, 400, codeHeaderMismatch},
		{"no Mcp-Name", nil, func(h http.Header) { h.Del("Mcp-Name") }, 400, codeHeaderMismatch},
		{"another Mcp-Name", nil, func(h http.Header) { h.Set("Mcp-Name", "panic") }, 400, codeHeaderMismatch},
		{"two Mcp-Name", nil, func(h http.Header) { h.Add("Mcp-Name", "echo") }, 400, codeHeaderMismatch},
		{"Mcp-Name in base64", nil, func(h http.Header) { h.Set("Mcp-Name", "=?base64?ZWNobw==?=") }, 200, 0},
		{"Mcp-Name in bad base64", nil, func(h http.Header) { h.Set("Mcp-Name", "=?base64?ZWNobw?=") }, 400, codeHeaderMismatch},
		{"an unknown tool", func(m object) { m["params"].(object)["name"] = "nope" },
			func(h http.Header) { h.Set("Mcp-Name", "nope") }, 400, codeInvalidParams},
		method("surprise"), method("initialize"), method("ping"), method("logging/setLevel"), method("resources/subscribe"),
	} {
		var frame object
		in := json.NewDecoder(bytes.NewReader([]byte(good.frame())))
		if err := in.Decode(&frame); err != nil {
			t.Fatal(err)
		}
		objects(frame)
		headers := good.headers()
		if c.frame != nil {
			c.frame(frame)
		}
		if c.header != nil {
			c.header(headers)
		}
		a := s.send(t, http.MethodPost, headers, encode(frame))
		if a.status != c.status || a.code() != c.code || string(a.ID) != "1" {
			t.Errorf("%s: status %d, %s; want status %d, code %d", c.title, a.status, a.body, c.status, c.code)
		}
		if c.code == codeVersion {
			var data struct {
				Supported []string
				Requested string
			}
			if err := json.Unmarshal(a.Error.Data, &data); err != nil || !slices.Contains(data.Supported, modernVersion) ||
				data.Requested != headers.Get("MCP-Protocol-Version") {
				t.Errorf("%s: data %s", c.title, a.Error.Data)
			}
		}
		if a.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: a modern answer carries a session", c.title)
		}
	}
	s.settled(t)
}

// objects gives the inner objects of decoded JSON their type.
func objects(o object) {
	for k, v := range o {
		if m, ok := v.(map[string]any); ok {
			o[k] = object(m)
			objects(o[k].(object))
		}
	}
}

// What the endpoint refuses before it reads the message.
func TestHTTPExchangesFollowTheRules(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t)
	good := call(1, "echo", object{"text": "x"})
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	for _, c := range []struct {
		title, method string
		header        func(http.Header)
		status        int
	}{
		{"foreign Origin", "POST", set("Origin", "https://evil.example"), 403},
		{"Origin null", "POST", set("Origin", "null"), 403},
		{"foreign Host", "POST", set("Host", "evil.example"), 403},
		{"localhost", "POST", set("Host", "localhost:1"), 200},
		{"local Origin", "POST", set("Origin", "http://localhost:5173"), 200},
		{"Accept HTML", "POST", set("Accept", "text/html"), 406},
		{"Accept anything", "POST", set("Accept", "*/*"), 200},
		{"form", "POST", set("Content-Type", "application/x-www-form-urlencoded"), 415},
		{"parameter", "POST", set("Content-Type", "application/json; charset=utf-8"), 200},
		{"modern GET", "GET", nil, 405},
		{"modern DELETE", "DELETE", nil, 405},
		{"PUT", "PUT", nil, 405},
	} {
		headers := good.headers()
		if c.header != nil {
			c.header(headers)
		}
		a := s.send(t, c.method, headers, good.frame())
		if a.status != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.title, a.status, c.status, a.body)
		}
		if c.status == 405 && a.header.Get("Allow") != "POST" && c.title != "PUT" {
			t.Errorf("%s: Allow: %q", c.title, a.header.Get("Allow"))
		}
	}
	// A legacy session that does not exist, or has ended.
	unknown := plainHeaders()
	unknown.Set("Mcp-Session-Id", "no-such-session")
	if a := s.send(t, "POST", unknown, good.inLegacy().frame()); a.status != 404 {
		t.Errorf("an unknown session: status %d", a.status)
	}
	if a := s.send(t, "POST", plainHeaders(), good.inLegacy().frame()); a.status != 400 {
		t.Errorf("no session: status %d", a.status)
	}
	session := s.initialize(t)
	if a := s.send(t, "DELETE", session.headers(), ""); a.status != 204 && a.status != 200 {
		t.Errorf("DELETE: status %d", a.status)
	}
	if a := s.send(t, "POST", session.headers(), good.inLegacy().frame()); a.status != 404 {
		t.Errorf("a deleted session: status %d", a.status)
	}
	if a := s.send(t, "DELETE", session.headers(), ""); a.status != 404 {
		t.Errorf("a second DELETE: status %d", a.status)
	}
}

// All progress comes before the answer, in order, with the token as it was given. Without a token
// there is none.
func TestProgressPrecedesTheAnswer(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, events []message, last message, token any) {
		t.Helper()
		if last.text() != "5 steps done" {
			t.Errorf("the answer: %+v", last)
		}
		for i, e := range events {
			if e.Method != "notifications/progress" || e.Params.Progress != float64(i+1) || e.Params.ProgressToken != token {
				t.Errorf("message %d: %+v", i, e)
			}
		}
	}
	progress := call("p", "progress", object{"steps": 5})
	t.Run("http", func(t *testing.T) {
		s := serveHTTP(t)
		a := s.post(t, progress.with("progressToken", "tök"))
		if check(t, a.events, a.message, "tök"); len(a.events) != 5 {
			t.Errorf("%d events: %s", len(a.events), a.body)
		}
		if a.header.Get("X-Accel-Buffering") != "no" || a.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("the event stream has the headers %v", a.header)
		}
		a = s.post(t, progress)
		if check(t, a.events, a.message, nil); len(a.events) != 0 || !a.isJSON() {
			t.Errorf("%d events without a token: %s", len(a.events), a.body)
		}
		session := s.initialize(t)
		a = s.send(t, "POST", session.headers(), progress.inLegacy().with("progressToken", 7).frame())
		if check(t, a.events, a.message, 7.0); len(a.events) != 5 {
			t.Errorf("%d events in the legacy era: %s", len(a.events), a.body)
		}
	})
	t.Run("stdio", func(t *testing.T) {
		p := connect(serveStdio(t))
		p.write(t, progress.with("progressToken", 7).frame())
		var events []message
		for {
			m := p.read(t)
			if m.Method == "" {
				if check(t, events, m, 7.0); len(events) != 5 {
					t.Errorf("%d notifications", len(events))
				}
				return
			}
			events = append(events, m)
		}
	})
}
