package server_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
		require.Contains(t, p.recv(), "done")
	})
}
