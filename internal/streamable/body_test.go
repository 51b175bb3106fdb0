package streamable_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// begin sends the beginning of a POST over a connection of its own.
func (e *endpoint) begin(rest string) net.Conn {
	e.t.Helper()
	conn, err := net.Dial("tcp", e.srv.Listener.Addr().String())
	require.NoError(e.t, err)
	e.t.Cleanup(func() { conn.Close() })
	require.NoError(e.t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+rest)
	require.NoError(e.t, err)
	return conn
}

// rest reads the response that a connection has got.
func (e *endpoint) rest(conn net.Conn) (*http.Response, string) {
	e.t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(e.t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(e.t, err)
	return res, string(body)
}

// A body that does not arrive ends its exchange.
func TestBodyThatDoesNotArriveTimesOut(t *testing.T) {
	for _, tt := range []struct{ name, request string }{
		{"announced", "Content-Length: 1000\r\n\r\n{"},
		{"announced, nothing came", "Content-Length: 1000\r\n\r\n"},
		{"large", "Content-Length: 1000000\r\n\r\n" + strings.Repeat(" ", 100_000)},
		{"chunked", "Transfer-Encoding: chunked\r\n\r\n400\r\n{"},
		{"between chunks", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEndpoint(t, http1, limits.Limits{BodyTimeout: 30 * time.Millisecond}, streamable.Config{})
			res, body := e.rest(e.begin(tt.request))
			require.Equal(t, 408, res.StatusCode)
			require.True(t, res.Close, "Connection: close")
			require.JSONEq(t, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"the body did not arrive in time: `+
				`body_timeout is reached","data":{"limit":"body_timeout"}}}`, body)
			<-e.left
			c := e.Conserved()
			require.EqualValues(t, 1, c.LimitsReached[limits.NameBodyTimeout])
			require.Equal(t, map[mcp.RefuseReason]uint64{mcp.RefuseBodyTimeout: 1}, c.ExchangesRefused)
			require.Zero(t, c.Received["request"])
		})
	}
}

// The time-out also holds for the body of an exchange that is refused for its headers.
func TestBodyTimeoutHoldsForRefusedExchanges(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{BodyTimeout: 30 * time.Millisecond}, streamable.Config{})
	conn := e.begin("Origin: https://evil.example\r\nContent-Length: 1000\r\n\r\n{")
	res, _ := e.rest(conn)
	require.Equal(t, 403, res.StatusCode)
	require.Equal(t, map[mcp.RefuseReason]uint64{mcp.RefuseOrigin: 1}, e.Conserved().ExchangesRefused)
}

// A deadline that outlives the body would cancel the handler. It is removed before the request
// is dispatched.
func TestBodyTimeoutDoesNotCancelHandlers(t *testing.T) {
	f := newFake(t, limits.Limits{})
	r := httptest.NewRequest("POST", "/", strings.NewReader(modern(1, "echo")))
	r.Header.Set("Content-Type", "application/json")
	for _, h := range modernHeaders("tools/call", "echo") {
		setHeader(r, h)
	}
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	streamable.New(f.Core, streamable.Config{}).ServeHTTP(w, r)
	require.Equal(t, answer(1, "echo"), w.Body.String())
	require.Equal(t, []string{"read deadline", "no read deadline", "header"}, w.calls)
	f.Conserved()
}

// A deadlineRecorder notes the order of read deadlines and the answer.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	calls []string
}

func (w *deadlineRecorder) SetReadDeadline(deadline time.Time) error {
	if deadline.IsZero() {
		w.calls = append(w.calls, "no read deadline")
	} else {
		w.calls = append(w.calls, "read deadline")
	}
	return nil
}

func (w *deadlineRecorder) WriteHeader(status int) {
	w.calls = append(w.calls, "header")
	w.ResponseRecorder.WriteHeader(status)
}

// A ResponseWriter without deadlines works as well.
func TestBodyWithoutDeadlines(t *testing.T) {
	f := newFake(t, limits.Limits{})
	for _, n := range []int{0, 64 << 10, 1 << 20} {
		text := modern(1, "echo") + strings.Repeat(" ", n)
		for _, length := range []int64{int64(len(text)), -1} {
			r := httptest.NewRequest("POST", "/", strings.NewReader(text))
			r.ContentLength = length
			r.Header.Set("Content-Type", "application/json")
			for _, h := range modernHeaders("tools/call", "echo") {
				setHeader(r, h)
			}
			w := httptest.NewRecorder()
			streamable.New(f.Core, streamable.Config{}).ServeHTTP(w, r)
			require.Equal(t, 200, w.Code, w.Body)
			require.Equal(t, answer(1, "echo"), w.Body.String())
		}
	}
	f.Conserved()
}

// holdBody sends all of a body but its last byte, which finish sends.
func holdBody(t *testing.T, e *endpoint, body string) (finish func() *httptest.ResponseRecorder) {
	t.Helper()
	// The body comes out of a pipe: what has been written has been read, and is counted.
	r, arriving := io.Pipe()
	holder := httptest.NewRequest("POST", "/", r)
	holder.ContentLength = int64(len(body))
	holder.Header.Set("Content-Type", "application/json")
	for _, h := range modernHeaders("tools/call", "echo") {
		setHeader(holder, h)
	}
	held := httptest.NewRecorder()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		streamable.New(e.Core, streamable.Config{}).ServeHTTP(held, holder)
		r.Close() // a handler that refuses the body does not read it
	}()
	_, err := io.WriteString(arriving, body[:len(body)-1])
	require.NoError(t, err, "the body is refused")
	return func() *httptest.ResponseRecorder {
		_, err := io.WriteString(arriving, body[len(body)-1:])
		require.NoError(t, err)
		require.NoError(t, arriving.Close())
		<-answered
		return held
	}
}

// The bodies that are being read have a bound in bytes. Small ones do not count.
func TestPendingBodiesAreBounded(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{MaxBodyBytesPending: 300 << 10}, streamable.Config{})
	large := modern(1, "echo") + strings.Repeat(" ", 200<<10)
	finish := holdBody(t, e, large)

	res, body := e.post(large, modernHeaders("tools/call", "echo")...)
	require.Equal(t, 429, res.StatusCode)
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.JSONEq(t, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"the server is overloaded: max_body_bytes_pending `+
		`is reached","data":{"reason":"overload","limit":"max_body_bytes_pending"}}}`, body)
	_, body = e.call("echo")
	require.Equal(t, answer(1, "echo"), body, "a small body has its room")

	require.Equal(t, answer(1, "echo"), finish().Body.String())
	e.roomReturns()
	_, body = e.post(large, modernHeaders("tools/call", "echo")...)
	require.Equal(t, answer(1, "echo"), body, "the room was given back")

	e.roomReturns()
	finish = holdBody(t, e, large)
	require.NoError(t, e.Core.Shutdown(t.Context()))
	res, body = e.post(large, modernHeaders("tools/call", "echo")...)
	require.Equal(t, 503, res.StatusCode, "waiting for room is of no use")
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.Contains(t, body, `"reason":"shutting_down"`)
	require.Equal(t, 503, finish().Code)

	c := e.Conserved()
	require.NotZero(t, c.LimitsReached[limits.NameBodyBytes])
	require.NotZero(t, c.ExchangesRefused[mcp.RefuseOverload])
	require.NotZero(t, c.ExchangesRefused[mcp.RefuseShuttingDown])
}

// roomReturns waits until no message takes room. An answer can arrive before its request is over.
func (e *endpoint) roomReturns() {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		shares := e.Core.Snapshot().Shares
		i := slices.IndexFunc(shares, func(s session.ShareInfo) bool { return s.Limit == limits.NameBodyBytes })
		return shares[i].Used == 0
	}, time.Minute, time.Millisecond)
}

// Every exchange that is refused before its message is read is counted.
func TestRefusedExchangesAreCounted(t *testing.T) {
	const gone = "Mcp-Session-Id: gone"
	const response = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for _, tt := range []struct {
		name, method, body string
		headers            []header
		status             int
		want               mcp.RefuseReason
	}{
		{"Host", "POST", "{}", []header{"Host: evil.example"}, 403, mcp.RefuseHost},
		{"Origin", "POST", "{}", []header{"Origin: https://evil.example"}, 403, mcp.RefuseOrigin},
		{"second Origin", "POST", "{}", []header{"Origin: http://localhost", "Origin! https://evil.example"}, 403, mcp.RefuseOrigin},
		{"method", "PUT", "{}", nil, 405, mcp.RefuseMethod},
		{"GET without a session", "GET", "", nil, 405, mcp.RefuseMethod},
		{"Accept", "POST", "{}", []header{"Accept: text/html"}, 406, mcp.RefuseAccept},
		{"Accept of a GET", "GET", "", []header{gone, "Accept: application/json"}, 406, mcp.RefuseAccept},
		{"Content-Type", "POST", "{}", []header{"Content-Type: text/plain"}, 415, mcp.RefuseContentType},
		{"gzip", "POST", "{}", []header{"Content-Encoding: gzip"}, 415, mcp.RefuseContentEncoding},
		{"identity and gzip", "POST", "{}", []header{"Content-Encoding: identity, gzip"}, 415, mcp.RefuseContentEncoding},
		{"gzip in a second header", "POST", "{}", []header{"Content-Encoding: identity", "Content-Encoding! br"}, 415, mcp.RefuseContentEncoding},
		{"identity", "POST", "{}", []header{"Content-Encoding: Identity"}, 400, ""},
		{"too many headers", "POST", "{}", slices.Repeat([]header{"X-Line! 1"}, 101), 431, mcp.RefuseTooManyHeaders},
		{"many headers", "POST", "{}", slices.Repeat([]header{"X-Line! 1"}, 90), 400, ""},
		{"version", "POST", response, []header{gone, "Mcp-Protocol-Version: 1999-01-01"}, 400, mcp.RefuseVersion},
		{"GET of an unknown session", "GET", "", []header{gone}, 404, mcp.RefuseSessionUnknown},
		{"DELETE of an unknown session", "DELETE", "", []header{gone}, 404, mcp.RefuseSessionUnknown},
		{"POST to an unknown session", "POST", legacy(1, "ping", ""), []header{gone}, 404, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
			res, body := e.do(e.request(t.Context(), tt.method, tt.body, tt.headers...))
			require.Equal(t, tt.status, res.StatusCode, body)
			want := map[mcp.RefuseReason]uint64{}
			if tt.want != "" {
				want[tt.want] = 1
			}
			c := e.Conserved()
			require.Equal(t, want, c.ExchangesRefused)
			if tt.want == mcp.RefuseContentEncoding {
				require.Contains(t, body, "Content-Encoding is not supported")
				require.Equal(t, "identity", res.Header.Get("Accept-Encoding"))
			}
			if tt.want != "" {
				require.Zero(t, c.Received["request"]+c.Received["notification"]+c.Received["response"]+c.Received["invalid"])
			}
		})
	}
}

// Of a large body a third is copied while it arrives, also of one that is a little larger than a power of two.
func TestLargeBodyIsNotCopiedAgainAndAgain(t *testing.T) {
	const size = 1<<20 + 300 // no power of two: the rooms are rounded up
	h := streamable.New(newFake(t, limits.Limits{}).Core, streamable.Config{})
	body := strings.Repeat("x", size) // it is refused after its first byte, which costs nothing
	post := func() {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
	}
	post()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	post()
	runtime.ReadMemStats(&after)
	require.Less(t, float64(after.TotalAlloc-before.TotalAlloc), 1.4*size)
}
