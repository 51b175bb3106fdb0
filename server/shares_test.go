package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A crowd is a server behind a trusted proxy, and its callers, by address.
type crowd struct {
	t   *testing.T
	srv *server.Server
	url string
}

// newCrowd serves the tools echo, and wait, whose handler returns when its context ends.
func newCrowd(t *testing.T, l server.Limits) *crowd {
	t.Helper()
	srv := newServer(t, server.WithLimits(l))
	server.AddTool(srv, server.Tool{Name: "echo"}, text("hello"))
	server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	front := httptest.NewServer(srv.Handler(server.WithTrustedProxies("127.0.0.1", "::1")))
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = srv.Shutdown(over) // cancels the calls, so that the connections can end
		front.Close()
	})
	return &crowd{t, srv, front.URL}
}

// modern sends a modern call of a caller.
func (c *crowd) modern(caller, tool string) (status int, body string) {
	c.t.Helper()
	res, body := exchange(c.t, http.MethodPost, c.url, modern(1, "tools/call", call(tool, "{}")), "X-Forwarded-For: "+caller,
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: "+tool)
	return res.StatusCode, body
}

// begin opens a legacy session of a caller. If its handshake is not finished, it is of no use.
func (c *crowd) begin(caller string, finish bool) (session string) {
	c.t.Helper()
	res, body := c.initialize(caller)
	require.Equal(c.t, http.StatusOK, res.StatusCode, body)
	session = res.Header.Get("Mcp-Session-Id")
	if finish {
		c.inSession(caller, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return session
}

// initialize asks for a legacy session.
func (c *crowd) initialize(caller string) (*http.Response, string) {
	c.t.Helper()
	return exchange(c.t, http.MethodPost, c.url,
		legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}`), "X-Forwarded-For: "+caller)
}

// inSession sends a message in a legacy session.
func (c *crowd) inSession(caller, session, frame string) (status int, body string) {
	c.t.Helper()
	res, body := exchange(c.t, http.MethodPost, c.url, frame, "X-Forwarded-For: "+caller, "Mcp-Session-Id: "+session)
	return res.StatusCode, body
}

// callAndHangUp makes a legacy call and does not wait for its answer.
func (c *crowd) callAndHangUp(caller, session string, id int) {
	c.t.Helper()
	at, err := url.Parse(c.url)
	require.NoError(c.t, err)
	conn, err := net.Dial("tcp", at.Host)
	require.NoError(c.t, err)
	frame := legacy(id, "tools/call", call("wait", "{}"))
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"X-Forwarded-For: %s\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", at.Host, caller, session, len(frame), frame)
	require.NoError(c.t, err)
	require.NoError(c.t, conn.Close())
}

// hold makes a modern call of the tool wait, until the context ends. If it is answered earlier, the
// response is sent to the channel.
func (c *crowd) hold(ctx context.Context, caller string, answered chan<- *http.Response) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(modern(1, "tools/call", call("wait", "{}"))))
	require.NoError(c.t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "X-Forwarded-For": caller,
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "wait",
	} {
		req.Header.Set(name, value)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	go func() {
		res, err := transport.RoundTrip(req)
		if err != nil {
			return // the context has ended
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if answered != nil {
			answered <- res
		}
	}()
}

// live waits until so many requests are in flight.
func (c *crowd) live(n int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return len(c.srv.Core().Snapshot().Requests) == n }, wait, tick)
}

// Legacy calls go on when their client has hung up. They do not hold all slots.
func TestCallersThatHungUpLockNobodyOut(t *testing.T) {
	const greedy, modest = "192.0.2.66", "192.0.2.1"
	c := newCrowd(t, server.Limits{MaxInFlightTotal: 1024, RequestTimeout: 10 * time.Minute})
	id := 0
	for range 16 {
		session := c.begin(greedy, true)
		for range 64 {
			id++
			c.callAndHangUp(greedy, session, id)
		}
	}
	running := func() int { return len(c.srv.Core().Snapshot().Requests) }
	require.Eventually(t, func() bool { return running() == 1024 }, wait, 10*tick)
	for range 10 {
		status, body := c.modern(modest, "echo")
		require.Equal(t, http.StatusOK, status, body)
	}
	session := c.begin(modest, true)
	status, body := c.inSession(modest, session, legacy(1, "tools/call", call("echo", "{}")))
	require.Equal(t, http.StatusOK, status, body)
	require.NoError(t, c.srv.Ready(t.Context()), "it serves others")
	require.Eventually(t, func() bool { return running() == 1024 }, wait, tick, "the calls go on meanwhile; those of others are over")
}

// One caller with a backlog delays nobody else and has no more than its share, in the modern era.
func TestBacklogOfOneCallerDelaysNobodyElse(t *testing.T) {
	const greedy = "2001:db8::"
	c := newCrowd(t, server.Limits{MaxInFlightTotal: 32, MaxQueue: 32})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 100 { // from many addresses of its network
		c.hold(ctx, fmt.Sprintf("%s%x", greedy, i+1), nil)
	}
	c.live(62) // 30 slots and 32 places
	for i := range 20 {
		status, body := c.modern(fmt.Sprint("192.0.2.", i), "echo")
		require.Equal(t, http.StatusOK, status, body)
	}
	c.begin("192.0.2.1", true)
	status, body := c.modern(greedy+"1", "echo")
	require.Equal(t, http.StatusTooManyRequests, status, body)
	require.Contains(t, body, `"limit":"max_queue"`)
	require.NoError(t, c.srv.Ready(t.Context()))
	cancel()
	c.live(0)
}

// A request that loses its place in the queue is answered like one that was rejected.
func TestDisplacedRequestIsToldOfTheOverload(t *testing.T) {
	c := newCrowd(t, server.Limits{MaxInFlightTotal: 1, MaxQueue: 2})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan *http.Response, 3)
	for i := range 3 {
		c.hold(ctx, "192.0.2.66", answered)
		c.live(i + 1)
	}
	c.hold(ctx, "192.0.2.1", nil)
	res := <-answered
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.EqualValues(t, 1, c.srv.Core().Snapshot().Counters.Displaced)
	cancel()
	c.live(0)
}

// A flood of handshakes from one address evicts the sessions that it has begun itself.
func TestHandshakesOfOneAddressEvictNoOtherSession(t *testing.T) {
	for name, finish := range map[string]bool{"that are not finished": false, "that are finished": true} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, server.Limits{MaxSessions: 50})
			idle := map[string]string{}
			for i := range 10 {
				caller := fmt.Sprint("192.0.2.", i)
				idle[caller] = c.begin(caller, true)
			}
			for range 200 {
				c.begin("192.0.2.66", finish)
			}
			for caller, session := range idle {
				status, body := c.inSession(caller, session, legacy(1, "tools/call", call("echo", "{}")))
				require.Equal(t, http.StatusOK, status, body)
			}
			c.begin("192.0.2.99", true)
		})
	}
}

// Each event stream that a legacy client opens with GET keeps its session from being evicted. One caller with as many as it can
// open leaves room for those of others, and keeps its own. The place of a session whose client has left goes to a newcomer.
func TestOwnStreamsOfOneCallerLeaveRoomForOthers(t *testing.T) {
	const greedy, limit = "192.0.2.66", 32
	c := newCrowd(t, server.Limits{MaxSessions: limit})
	evicted := func() uint64 { return c.srv.Core().Snapshot().Counters.SessionsClosed[mcp.CauseSessionEvicted] }
	var held []*eventStream
	for range limit - limit/16 { // all but the reserve
		held = append(held, c.read(greedy, c.begin(greedy, true)))
	}
	last := held[len(held)-1]
	again := openStream(t, http.MethodGet, c.url, "", "X-Forwarded-For: "+greedy, "Mcp-Session-Id: "+last.Request.Header.Get("Mcp-Session-Id"))
	require.Equal(t, http.StatusConflict, again.StatusCode, "a session has one stream")
	c.full(greedy)

	others := []*eventStream{c.read("192.0.2.1", c.begin("192.0.2.1", true)), c.read("192.0.2.2", c.begin("192.0.2.2", true))}
	for _, caller := range []string{greedy, "192.0.2.1", "192.0.2.3"} {
		c.full(caller) // the reserve is taken, and no session is idle
	}
	require.Zero(t, evicted())
	server.AddTool(c.srv, server.Tool{Name: "new"}, text("hello"))
	for _, s := range append(others, held...) {
		require.Contains(t, s.next(), toolsChanged, "no stream was ended")
	}

	last.Body.Close()
	require.Eventually(t, func() bool { return c.idle() == 1 }, wait, tick)
	held[len(held)-1] = c.read("192.0.2.3", c.begin("192.0.2.3", true))
	require.EqualValues(t, 1, evicted(), "the session that nobody reads")
	server.AddTool(c.srv, server.Tool{Name: "another"}, text("hello"))
	for _, s := range append(others, held...) {
		require.Contains(t, s.next(), toolsChanged)
	}
	conserved(t, c.srv)
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(c.srv.Core().Snapshot().Shares, func(of session.ShareInfo) bool { return of.Used != 0 || of.Holders != 0 })
	}, wait, tick, "nobody holds anything")
}

// read opens the own stream of a legacy session.
func (c *crowd) read(caller, session string) *eventStream {
	c.t.Helper()
	s := openStream(c.t, http.MethodGet, c.url, "", "X-Forwarded-For: "+caller, "Mcp-Session-Id: "+session)
	require.Equal(c.t, http.StatusOK, s.StatusCode)
	return s
}

// idle returns how many sessions have neither a stream nor a request.
func (c *crowd) idle() (n int) {
	for _, s := range c.srv.Core().Snapshot().Sessions {
		if s.Idle > 0 {
			n++
		}
	}
	return n
}

// full checks that a caller gets no further session, and is told the limit.
func (c *crowd) full(caller string) {
	c.t.Helper()
	res, body := c.initialize(caller)
	require.Equal(c.t, http.StatusTooManyRequests, res.StatusCode, body)
	require.Contains(c.t, body, `"limit":"max_sessions"`)
}

// A server that is full of requests of several callers is not ready for more.
func TestFullServerIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithLimits(server.Limits{MaxInFlightTotal: 2, MaxQueue: 1}))
		end := make(chan struct{})
		server.AddTool(srv, server.Tool{Name: "wait"}, func(context.Context, *server.Call, struct{}) (string, error) {
			<-end
			return "", nil
		})
		for range 4 {
			dial(t, srv).send(modern(1, "tools/call", call("wait", "{}")))
			synctest.Wait()
		}
		require.NoError(t, srv.Ready(t.Context()))
		time.Sleep(5 * time.Second)
		err := srv.Ready(t.Context())
		require.EqualError(t, err, "saturation: all slots have been held and the queue full for 5s (limits max_in_flight_total and max_queue; "+
			"a negative saturation_grace switches this check off)")
		close(end)
		synctest.Wait()
		require.Error(t, srv.Ready(t.Context()))
		time.Sleep(5 * time.Second)
		require.NoError(t, srv.Ready(t.Context()))
	})
}

// A call that gets its slot late, while another one waits, is refused over HTTP with a status and a time to come back. If a sign of life
// has begun the answer before, the refusal is an event.
func TestLateCallsAreRefusedOverHTTP(t *testing.T) {
	for deadline, want := range map[time.Duration]int{20 * time.Second: http.StatusTooManyRequests, time.Minute: http.StatusOK} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t, server.WithLimits(server.Limits{MaxInFlightTotal: 1}))
			end := make(chan struct{})
			server.AddTool(srv, server.Tool{Name: "wait", Deadline: deadline}, func(context.Context, *server.Call, struct{}) (string, error) {
				<-end
				return "", nil
			})
			handler := srv.Handler()
			var answers [3]*httptest.ResponseRecorder
			for i := range answers {
				answers[i] = httptest.NewRecorder()
				req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(modern(i, "tools/call", call("wait", "{}"))))
				header := append(modernHeaders("tools/call", "wait"), "Content-Type: application/json", "Accept: application/json, text/event-stream")
				for _, line := range header {
					name, value, _ := strings.Cut(line, ": ")
					req.Header.Set(name, value)
				}
				go handler.ServeHTTP(answers[i], req)
				synctest.Wait()
			}
			time.Sleep(deadline/2 + time.Second)
			close(end)
			synctest.Wait()
			late := answers[1]
			require.Equal(t, want, late.Code, late.Body)
			require.Equal(t, want == http.StatusTooManyRequests, late.Header().Get("Retry-After") != "")
			require.Contains(t, late.Body.String(), `"limit":"max_queue_wait"`)
			require.Equal(t, http.StatusOK, answers[2].Code)
			require.NotContains(t, answers[2].Body.String(), "overload")
		})
	}
}
