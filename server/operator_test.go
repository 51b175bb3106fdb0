package server_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// requestKey returns the key of the oldest request in flight, as /debug/requests has it.
func requestKey(srv *server.Server) string {
	oldest := slices.MaxFunc(srv.Core().Snapshot().Requests, func(a, b session.RequestInfo) int { return cmp.Compare(a.Age, b.Age) })
	return fmt.Sprint("r", oldest.Request.Key())
}

// sessionKey returns the key of a session.
func sessionKey(srv *server.Server) string {
	return fmt.Sprint("s", srv.Core().Snapshot().Sessions[0].Session.Key())
}

// An operator ends one of two requests with the same id. Its caller has an error at once, its handler is
// cancelled, and the other request goes on.
func TestOperatorEndsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 2)
		release := make(chan struct{})
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
			select {
			case <-ctx.Done():
				causes <- context.Cause(ctx)
				time.Sleep(time.Second) // the caller does not wait for this
				return "", nil
			case <-release:
				return "released", nil
			}
		})
		ann, bob := dial(t, srv), dial(t, srv)
		ann.send(modern(1, "tools/call", call("wait", `{}`)))
		time.Sleep(time.Second)
		bob.send(modern(1, "tools/call", call("wait", `{}`)))
		synctest.Wait()

		key := requestKey(srv)
		acted, err := srv.EndRequest(key)
		require.NoError(t, err)
		require.Equal(t, server.Acted{Method: "tools/call", Tool: "wait", RequestID: "1", Session: "memory"}, acted)
		require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the request was cancelled: operator","data":{"reason":"operator"}}}`, ann.recv())
		require.ErrorIs(t, <-causes, mcp.ErrEndedByOperator)
		_, err = srv.EndRequest(key)
		require.ErrorIs(t, err, server.ErrEnded, "its outcome is decided")
		synctest.Wait()
		time.Sleep(2 * time.Second)
		_, err = srv.EndRequest(key)
		require.ErrorIs(t, err, server.ErrEnded, "it has gone")

		close(release)
		require.Contains(t, bob.recv(), "released")
		require.Empty(t, causes)
	})
}

// A request that waits for a slot is told that its handler was not called.
func TestOperatorEndsAQueuedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithLimits(server.Limits{MaxInFlightTotal: 1}))
		release := make(chan struct{})
		server.AddTool(srv, server.Tool{Name: "wait"}, func(context.Context, *server.Call, none) (string, error) { <-release; return "released", nil })
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("wait", `{}`)))
		synctest.Wait()
		p.send(modern(2, "tools/call", call("wait", `{}`)))
		synctest.Wait()
		for _, r := range srv.Core().Snapshot().Requests {
			if r.State == report.StateQueued {
				_, err := srv.EndRequest(fmt.Sprint("r", r.Request.Key()))
				require.NoError(t, err)
			}
		}
		require.Contains(t, p.recv(), `"data":{"reason":"operator","phase":"queued"}`)
		close(release)
		require.Contains(t, p.recv(), "released")
	})
}

// The handlers of a session that an operator ends may still answer.
func TestOperatorEndsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
			<-ctx.Done()
			return "so far", nil
		})
		server.AddTool(srv, server.Tool{Name: "deaf"}, sleep(time.Minute))
		p, other := dial(t, srv), dial(t, srv)
		p.send(modern(1, "tools/call", call("wait", `{}`)))
		p.send(modern(2, "tools/call", call("deaf", `{}`)))
		synctest.Wait()
		key := ""
		for _, s := range srv.Core().Snapshot().Sessions {
			if s.Requests > 0 {
				key = fmt.Sprint("s", s.Session.Key())
			}
		}
		acted, err := srv.EndSession(key)
		require.NoError(t, err)
		require.Equal(t, "memory", acted.Session)
		require.Contains(t, p.recv(), "so far")
		require.Contains(t, p.recv(), `"reason":"operator"`)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		_, err = srv.EndSession(key)
		require.ErrorIs(t, err, server.ErrEnded)
		require.Contains(t, other.ask(modern(1, "ping", "")), "-32601", "the other connection goes on")
	})
}

// No message is served that comes when EndSession has returned, with and without a sealed id.
func TestMessageAfterTheEndByAnOperator(t *testing.T) {
	for name, options := range map[string][]server.Option{"local": nil, "sealed": {server.WithStateKeys(stateKey(1))}} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // what ends the session goes on in the background
				srv := newServer(t, options...)
				session := openLatest(t, srv)
				_, err := srv.EndSession(sessionKey(srv))
				require.NoError(t, err)
				require.Equal(t, 404, post(srv, legacy(2, "ping", ""), session).Code)
			}
		})
	}
}

func TestOperatorNamesNothing(t *testing.T) {
	srv := newServer(t)
	for _, key := range []string{"", "r", "s", "r0", "r-1", "17", "r99999999", "s99999999", "x17", "r1 ", strings.Repeat("r", 1000)} {
		_, err := srv.EndRequest(key)
		require.ErrorIs(t, err, server.ErrUnknownKey, key)
		_, err = srv.EndSession(key)
		require.ErrorIs(t, err, server.ErrUnknownKey, key)
		_, err = srv.CloseStream(key, 0)
		require.ErrorIs(t, err, server.ErrUnknownKey, key)
	}
}

// A stream that its client cannot resume is not closed.
func TestOperatorClosesNoStreamThatCannotBeResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "x"}, sleep(time.Second))
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("x", `{}`)))
		synctest.Wait()
		_, err := srv.CloseStream(requestKey(srv), 0)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "end_request ends it")
		require.Contains(t, p.recv(), "done")
	})
}

// An operator ends the stream of a request. Its handler goes on, and its client comes again when it was told to, for the
// answer.
func TestOperatorClosesTheStreamOfARequest(t *testing.T) {
	srv := newServer(t, server.WithTelemetry(recording(t)))
	release := make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
		if err := c.Progress(1, 2, ""); err != nil {
			return "", err
		}
		select {
		case <-release:
			return "released", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	url := listen(t, srv)
	sid := sessionWith(t, url, "2025-11-25")
	s := openStream(t, "POST", url, legacy(2, "tools/call", call("wait", "{}")+`,"_meta":{"progressToken":1}`), sid)
	require.Contains(t, s.next(), "notifications/progress")
	open := requestsPage(t, srv).Requests // that of the handshake may still be there
	key := open[slices.IndexFunc(open, func(r report.Request) bool { return r.Tool == "wait" })].Key
	acted, err := srv.CloseStream(key, 300*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, []string{"tools/call", "wait", "2"}, []string{acted.Method, acted.Tool, acted.RequestID})
	require.NotEmpty(t, acted.Session)
	rest, err := io.ReadAll(s.in)
	require.NoError(t, err)
	require.Contains(t, string(rest), "retry: 300\n")
	require.Eventually(t, func() bool { return len(requestsPage(t, srv).EndedStreams) == 1 }, wait, tick)
	ended := requestsPage(t, srv).EndedStreams[0]
	require.Equal(t, []string{"answer", "done", "wait"}, []string{ended.Kind, ended.Reason, ended.Tool}, "what it had to say was said")

	s = openStream(t, "GET", url, "", sid, "Last-Event-ID: "+lastID(s.raw.String()))
	require.Equal(t, 200, s.StatusCode)
	close(release)
	require.Contains(t, s.next(), "released")
	s.ends()
	conserved(t, srv)
}

// An operator ends the stream that the client of a session reads with GET. The client reads it again, and has missed
// nothing.
func TestOperatorClosesTheStreamOfASession(t *testing.T) {
	srv := changing(t, server.WithTelemetry(recording(t)))
	url := listen(t, srv)
	sid := sessionWith(t, url, "2025-11-25")
	key := sessionKey(srv)
	_, err := srv.CloseStream(key, 0)
	require.ErrorIs(t, err, server.ErrNoStream)
	// reads opens the stream as soon as the server has let go of the earlier one.
	reads := func(headers ...string) (s *eventStream) {
		t.Helper()
		require.Eventually(t, func() bool {
			s = openStream(t, "GET", url, "", append(headers, sid)...)
			return s.StatusCode == 200
		}, wait, tick)
		return s
	}
	closes := func(s *eventStream, kind string) {
		t.Helper()
		acted, err := srv.CloseStream(key, 0)
		require.NoError(t, err)
		require.NotEmpty(t, acted.Session)
		rest, err := io.ReadAll(s.in)
		require.NoError(t, err)
		require.NotContains(t, string(rest), "event: message")
		require.Eventually(t, func() bool {
			all := requestsPage(t, srv).EndedStreams
			return len(all) > 0 && all[0].Kind == kind && all[0].Reason == "operator"
		}, wait, tick)
	}
	closes(reads(), "session") // it has had no message yet
	s := reads()
	srv.RemoveTools("hi")
	require.Contains(t, s.next(), toolsChanged)
	closes(s, "session")
	srv.ResourceUpdated("test://a")
	server.AddTool(srv, server.Tool{Name: "missed"}, text(""))
	s = reads("Last-Event-ID: " + lastID(s.raw.String()))
	require.Contains(t, s.next(), toolsChanged)
	closes(s, "resumed")

	_, err = srv.CloseStream(key, time.Second)
	require.ErrorIs(t, err, errors.ErrUnsupported, "nothing tells the client")
	exchange(t, "DELETE", url, "", sid)
	require.Eventually(t, func() bool {
		_, err = srv.CloseStream(key, 0)
		return errors.Is(err, server.ErrEnded)
	}, wait, tick)
	conserved(t, srv)
}

// Without an event store the stream of a session ends as well.
func TestOperatorClosesTheStreamOfASessionWithoutEvents(t *testing.T) {
	srv := changing(t, server.WithTelemetry(recording(t)), server.WithoutEventStore())
	url := listen(t, srv)
	sid := sessionWith(t, url, "2025-11-25")
	s := openStream(t, "GET", url, "", sid)
	require.Equal(t, 200, s.StatusCode)
	_, err := srv.CloseStream(sessionKey(srv), 0)
	require.NoError(t, err)
	s.ends()
	require.Eventually(t, func() bool { return openStream(t, "GET", url, "", sid).StatusCode == 200 }, wait, tick)
	require.Equal(t, "operator", requestsPage(t, srv).EndedStreams[0].Reason)
	conserved(t, srv)
}
