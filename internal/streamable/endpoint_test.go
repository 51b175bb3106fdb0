package streamable_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// eachProtocol runs a test over HTTP/1.1 and HTTP/2.
func eachProtocol(t *testing.T, f func(t *testing.T, proto protocol)) {
	for _, proto := range []protocol{http1, http2} {
		t.Run(proto.String(), func(t *testing.T) { f(t, proto) })
	}
}

// An answer that comes first is plain JSON with its length.
func TestFirstAnswerIsJSON(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
		res, body := e.call("echo")
		require.Equal(t, int(proto), res.ProtoMajor)
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, answer(1, "echo"), body)
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		require.EqualValues(t, len(body), res.ContentLength)
		require.Empty(t, res.Header.Get("Mcp-Session-Id"), "modern requests have no session")
		e.Conserved()
	})
}

// A notification before the answer turns the response into an event stream.
func TestNotificationBeforeTheAnswerBeginsAnEventStream(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
		for _, legacyEra := range []bool{false, true} {
			var res *http.Response
			var body string
			if legacyEra {
				res, body = e.post(legacy(1, "tools/call", "progress:xx"), e.session())
			} else {
				res, body = e.call("progress:xx")
			}
			require.Equal(t, 200, res.StatusCode)
			require.Equal(t, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"n\":0}}\n\n"+
				"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"n\":1}}\n\n"+
				"event: message\ndata: "+answer(1, "progress:xx")+"\n\n", body)
			require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
			require.Equal(t, "no-cache", res.Header.Get("Cache-Control"))
			require.Equal(t, "no", res.Header.Get("X-Accel-Buffering"))
			require.Empty(t, res.Header.Get("Content-Length"))
		}
		e.Conserved()
	})
}

// The handler goes on only after the client has read the event.
func TestEachEventIsFlushed(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
		res, err := e.srv.Client().Do(e.request(t.Context(), "POST", modern(1, "step"), modernHeaders("tools/call", "step")...))
		require.NoError(t, err)
		defer res.Body.Close()
		in := bufio.NewReader(res.Body)
		for i := range 2 {
			for _, want := range []string{"event: message\n",
				fmt.Sprintf(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"n":%d}}`+"\n", i), "\n"} {
				line, err := in.ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, want, line)
			}
			<-e.Started
			e.Release <- struct{}{}
		}
		rest, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, "event: message\ndata: "+answer(1, "step")+"\n\n", string(rest))
		e.Conserved()
	})
}

// In the modern era the status follows from the code of the error. A legacy error has the
// status 200.
func TestStatusOfErrors(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid := e.session()
	for _, tt := range []struct{ code, status int }{
		{-32700, 400}, {-32600, 400}, {-32601, 404}, {-32602, 400}, {-32603, 200},
		{-32020, 400}, {-32021, 400}, {-32022, 400}, {-31000, 200}, {1, 200},
	} {
		name := fmt.Sprintf("fail:%d", tt.code)
		res, body := e.call(name)
		require.Equal(t, tt.status, res.StatusCode, "modern %d", tt.code)
		require.JSONEq(t, failure("1", tt.code, "failed"), body)
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		res, body = e.post(legacy(1, "tools/call", name), sid)
		require.Equal(t, 200, res.StatusCode, "legacy %d", tt.code)
		require.JSONEq(t, failure("1", tt.code, "failed"), body)
	}
	res, body := e.call("fail:")
	require.Equal(t, 200, res.StatusCode)
	require.JSONEq(t, failure("1", -32603, "internal error"), body)
	e.Conserved()
}

func TestModernHeaders(t *testing.T) {
	const version, method = "Mcp-Protocol-Version", "Mcp-Method"
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	for _, tt := range []struct {
		name    string
		target  string // params.name
		headers []header
		want    string // message of -32020, or "" for an answer
	}{
		{"plain", "echo", nil, ""},
		{"lower case", "echo", []header{"mcp-name: echo"}, ""},
		{"white space around it", "echo", []header{"Mcp-Name:  echo "}, ""},
		{"session id is ignored", "echo", []header{"Mcp-Session-Id: nobody"}, ""},
		{"resumption is ignored", "echo", []header{"Last-Event-ID: 7"}, ""},
		{"unknown parameter", "echo", []header{"Mcp-Param-X: 7"}, ""},
		{"no version", "echo", []header{"-" + version}, version + " is missing"},
		{"another version", "echo", []header{version + ": 2025-11-25"}, version + " differs from the body"},
		{"no method", "echo", []header{"-" + method}, method + " is missing"},
		{"another method", "echo", []header{method + ": tools/list"}, method + " differs from the body"},
		{"method in capitals", "echo", []header{method + ": Tools/Call"}, method + " differs from the body"},
		{"no name", "echo", []header{"-Mcp-Name"}, "Mcp-Name is missing"},
		{"another name", "echo", []header{"Mcp-Name: Echo"}, "Mcp-Name differs from params.name"},
		{"name twice", "echo", []header{"Mcp-Name! echo"}, "Mcp-Name is given more than once"},
		{"version twice", "echo", []header{version + "! 2026-07-28"}, version + " is given more than once"},
		{"method twice", "echo", []header{method + "! tools/call"}, method + " is given more than once"},
		{"base64", "grüße ✓", []header{"Mcp-Name: =?base64?Z3LDvMOfZSDinJM=?="}, ""},
		{"base64 of plain text", "echo", []header{"Mcp-Name: =?base64?ZWNobw==?="}, ""},
		{"base64 of the sentinel", "=?base64?eA==?=", []header{"Mcp-Name: =?base64?PT9iYXNlNjQ/ZUE9PT89?="}, ""},
		{"looks like base64", "=?base64?ZWNobw==?=", nil, "Mcp-Name differs from params.name"},
		{"base64 without its end", "=?base64?eA==", nil, ""},
		{"base64 in capitals", "=?BASE64?eA==?=", nil, ""},
		{"base64 without padding", "echo", []header{"Mcp-Name: =?base64?ZWNobw?="}, "Mcp-Name is not valid base64"},
		{"base64 with another alphabet", "echo", []header{"Mcp-Name: =?base64?ZW_obw==?="}, "Mcp-Name is not valid base64"},
		{"base64 with loose bits", "echo", []header{"Mcp-Name: =?base64?ZWNobx==?="}, "Mcp-Name is not valid base64"},
		{"base64 of something else", "echo", []header{"Mcp-Name: =?base64?eA==?="}, "Mcp-Name differs from params.name"},
		{"empty name", "", []header{"Mcp-Name: "}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.t = t
			res, body := e.call(tt.target, tt.headers...)
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))
			if tt.want == "" {
				require.Equal(t, answer(1, tt.target), body)
				require.Equal(t, 200, res.StatusCode)
				return
			}
			require.JSONEq(t, failure("1", -32020, tt.want), body)
			require.Equal(t, 400, res.StatusCode)
		})
	}
	e.Conserved()
}

func TestEndpointRefusesHostsAndOrigins(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	for _, tt := range []struct {
		name    string
		headers []header
		status  int
		message string
	}{
		{"JSON only", []header{"Accept: application/json;q=0.5"}, 200, ""},
		{"anything", []header{"Accept: text/html, */*;q=0.1"}, 200, ""},
		{"no Accept", []header{"-Accept"}, 200, ""},
		{"another Accept", []header{"Accept: text/html, image/png"}, 406, "Accept must allow application/json or text/event-stream"},
		{"charset", []header{"Content-Type: application/json; charset=utf-8"}, 200, ""},
		{"Content-Type in capitals", []header{"Content-Type: Application/JSON"}, 200, ""},
		{"text", []header{"Content-Type: text/plain"}, 415, "Content-Type must be application/json"},
		{"form", []header{"Content-Type: application/x-www-form-urlencoded"}, 415, "Content-Type must be application/json"},
		{"prefix", []header{"Content-Type: application/json-seq"}, 415, "Content-Type must be application/json"},
		{"no Content-Type", []header{"-Content-Type"}, 415, "Content-Type must be application/json"},
		{"foreign page", []header{"Origin: https://evil.example"}, 403, `Origin "https://evil.example" is not allowed (set --allowed-origins, or server.WithAllowedOrigins)`},
		{"rebound name", []header{"Host: evil.example"}, 403, `Host "evil.example" is not allowed (set --allowed-hosts, or server.WithAllowedHosts)`},
		{"foreign page comes before Accept", []header{"Origin: https://evil.example", "Accept: text/html"}, 403, `Origin "https://evil.example" is not allowed (set --allowed-origins, or server.WithAllowedOrigins)`},
		{"Accept comes before Content-Type", []header{"Content-Type: text/plain", "Accept: text/html"}, 406, "Accept must allow application/json or text/event-stream"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.t = t
			res, body := e.call("echo", tt.headers...)
			require.Equal(t, tt.status, res.StatusCode)
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))
			if tt.message != "" {
				require.JSONEq(t, failure("", -32600, tt.message), body)
			}
		})
	}
	e.Conserved()
}

func TestBodies(t *testing.T) {
	const limit = 300
	e := newEndpoint(t, http1, limits.Limits{MaxFrameBytes: limit, MaxDepth: 5}, streamable.Config{})
	padded := func(n int) string { return modern(1, "echo") + strings.Repeat(" ", n-len(modern(1, "echo"))) }
	tooLarge := fmt.Sprintf("the message has more than %d bytes, which is the limit", limit)
	for _, tt := range []struct {
		name, body string
		status     int
		want       string // the answer, or a part of it if that is no JSON
	}{
		{"at the limit", padded(limit), 200, answer(1, "echo")},
		{"above the limit", padded(limit + 1), 413, failure("", -32600, tooLarge)},
		{"far above the limit", padded(10 * limit), 413, failure("", -32600, tooLarge)},
		{"empty", "", 400, failure("", -32700, "the message is empty")},
		{"blank", " \n", 400, failure("", -32700, "the message is empty")},
		{"no JSON", "hello", 400, "-32700"},
		{"half of it", modern(1, "echo")[:50], 400, "-32700"},
		{"two of it", `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, 400, "-32700"},
		{"invalid UTF-8", `{"jsonrpc":"2.0","id":1,"method":"` + "\xff" + `"}`, 400, "not valid UTF-8"},
		{"duplicate member", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, 400, "duplicate member"},
		{"deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[[[[]]]]}}`, 400, "deeper than 5 levels"},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, 400, "not an array"},
		{"empty batch", `[]`, 400, "not an array"},
		{"a number", `1`, 400, failure("", -32600, "a message must be an object")},
		{"no jsonrpc", `{"id":1,"method":"ping"}`, 400, failure("1", -32600, `member "jsonrpc" is missing`)},
		{"another jsonrpc", `{"jsonrpc":"1.0","id":"a","method":"ping"}`, 400, failure(`"a"`, -32600, `member "jsonrpc" must be "2.0"`)},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, failure("", -32600, `member "id" must be a string or an integer`)},
		{"id is a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, "-32600"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, 400, failure("1", -32600, `a message must have "method", "result" or "error"`)},
		{"method is a number", `{"jsonrpc":"2.0","id":1,"method":1}`, 400, failure("1", -32600, `member "method" must be a string`)},
		{"params are text", `{"jsonrpc":"2.0","id":1,"method":"ping","params":"a"}`, 400, "-32600"},
		{"malformed notification", `{"jsonrpc":"1.0","method":"ping"}`, 400, "-32600"},
		{"malformed response", `{"jsonrpc":"2.0","id":true,"result":{}}`, 400, "-32600"},
	} {
		check := func(t *testing.T, req *http.Request) {
			t.Helper()
			res, body := e.do(req)
			require.Equal(t, tt.status, res.StatusCode, body)
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))
			if strings.HasPrefix(tt.want, "{") {
				require.JSONEq(t, tt.want, body)
				return
			}
			require.Contains(t, body, tt.want)
			require.Contains(t, body, `{"jsonrpc":"2.0",`)
		}
		t.Run(tt.name, func(t *testing.T) {
			e.t = t
			headers := modernHeaders("tools/call", "echo")
			check(t, e.request(t.Context(), "POST", tt.body, headers...))
			chunked := e.request(t.Context(), "POST", "", headers...)
			chunked.Body, chunked.ContentLength = io.NopCloser(strings.NewReader(tt.body)), -1
			check(t, chunked)
		})
	}
	e.Conserved()
}

// A body that breaks off is not a request.
func TestBodyThatBreaksOffIsNoRequest(t *testing.T) {
	for _, tt := range []struct{ name, request, answer string }{
		{"fewer bytes than announced", "Content-Length: 1000\r\n\r\n" + modern(1, "echo"), ""},
		{"chunk without its end", "Transfer-Encoding: chunked\r\n\r\n400\r\n" + modern(1, "echo"), ""},
		{"bad chunk", "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "400 Bad Request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
			conn, err := net.Dial("tcp", e.srv.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s", tt.request)
			require.NoError(t, err)
			if tt.answer == "" {
				require.NoError(t, conn.Close())
			} else {
				line, err := bufio.NewReader(conn).ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, "HTTP/1.1 "+tt.answer+"\r\n", line)
			}
			<-e.left
			c := e.Conserved()
			require.Zero(t, c.Received["request"])
			require.Equal(t, map[mcp.RefuseReason]uint64{mcp.RefuseBody: 1}, c.ExchangesRefused)
		})
	}
}

// A lost exchange cancels a modern request.
func TestDisconnectCancelsModernRequest(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		for _, name := range []string{"wait", "wait:after progress"} {
			e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			req := e.request(ctx, "POST", modern(1, name), modernHeaders("tools/call", name)...)
			go func() {
				res, err := e.srv.Client().Do(req)
				if err == nil {
					res.Body.Close()
				}
				failed <- err
			}()
			<-e.Started
			cancel()
			require.ErrorIs(t, <-failed, context.Canceled)
			require.ErrorIs(t, <-e.Ended, mcp.ErrClientDisconnected)
			<-e.left
			require.EqualValues(t, 1, dropped(e.Conserved(), mcp.DropCancelled))
		}
	})
}

// A lost exchange does not cancel a legacy request. Its answer is dropped.
func TestDisconnectDoesNotCancelLegacyRequest(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
		sid := e.session()
		<-e.left
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		req := e.request(ctx, "POST", legacy(1, "tools/call", "wait"), sid)
		go func() {
			res, err := e.srv.Client().Do(req)
			if err == nil {
				res.Body.Close()
			}
			failed <- err
		}()
		<-e.Started
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		<-e.left // the endpoint has noticed
		require.Empty(t, e.Ended)
		e.Release <- struct{}{}
		require.NoError(t, <-e.Ended)
		_, body := e.post(legacy(2, "tools/call", "echo"), sid) // the handler's end is not yet that of id 1
		require.Equal(t, answer(2, "echo"), body, "the session lives on")
		require.EqualValues(t, 1, dropped(e.Conserved(), mcp.DropStreamGone))
	})
}

// While the server drains, clients get 503, also if the server is full: a proxy takes a replica
// that answers 503 out of service, and not one that answers 429.
func TestDrainingEndpointAnswers503(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{MaxInFlightTotal: 1, MaxQueue: -1}, streamable.Config{})
	answered := make(chan string, 1)
	req := e.request(t.Context(), "POST", modern(1, "wait"), modernHeaders("tools/call", "wait")...)
	go func() {
		_, body := e.do(req)
		answered <- body
	}()
	<-e.Started
	drained := make(chan error, 1)
	go func() { drained <- e.Core.Shutdown(context.Background()) }()
	for !e.Core.Draining() { //nolint:revive // a spin of microseconds: there is nothing to wait for
	}
	refused := `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the server is shutting down","data":{"reason":"shutting_down"}}}`
	for _, body := range []string{modern(1, "echo"), legacy(1, "initialize", "")} {
		headers := modernHeaders("tools/call", "echo")
		if !strings.Contains(body, "_meta") {
			headers = nil
		}
		res, got := e.post(body, headers...)
		require.Equal(t, 503, res.StatusCode)
		require.JSONEq(t, refused, got)
		require.Equal(t, "1", res.Header.Get("Retry-After"))
		require.True(t, res.Close, "Connection: close")
	}
	e.Release <- struct{}{}
	require.Equal(t, answer(1, "wait"), <-answered)
	require.NoError(t, <-drained)
}

func TestOverloadIsAnsweredWith429(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{MaxInFlightTotal: 1, MaxQueue: -1, MaxSessions: 1}, streamable.Config{})
	answered := make(chan string, 1)
	req := e.request(t.Context(), "POST", modern(1, "wait"), modernHeaders("tools/call", "wait")...)
	go func() {
		_, body := e.do(req)
		answered <- body
	}()
	<-e.Started
	res, body := e.call("echo")
	require.Equal(t, 429, res.StatusCode)
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.Contains(t, body, `"reason":"overload"`)
	e.Release <- struct{}{}
	require.Equal(t, answer(1, "wait"), <-answered)

	// A session that is busy makes no room for another one.
	busy := e.request(t.Context(), "POST", legacy(1, "tools/call", "wait"), e.session())
	go func() {
		_, body := e.do(busy)
		answered <- body
	}()
	<-e.Started
	res, body = e.post(legacy(1, "initialize", ""))
	require.Equal(t, 429, res.StatusCode)
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.Contains(t, body, `"limit":"max_sessions"`)
	e.Release <- struct{}{}
	require.Equal(t, answer(1, "wait"), <-answered)
	e.Conserved()
}
