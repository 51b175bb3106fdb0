package servertest_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// attempts is how often a test repeats what a select statement decides by chance.
const attempts = 20

// A slowWaiter is the context of a request whose caller is slow: it looks for an answer when everything has happened that
// happens. That is when it asks for Done for the second time. Before the first time it writes the request.
type slowWaiter struct {
	context.Context
	asked   int
	happens func()
}

func (w *slowWaiter) Done() <-chan struct{} {
	if w.asked++; w.asked == 2 {
		synctest.Wait()
		w.happens()
		synctest.Wait()
	}
	return w.Context.Done()
}

// An answer counts, although the connection or the context has ended by the time that its caller looks.
func TestAnswerThatHasArrivedIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range attempts {
			srv := newServer()
			server.AddTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.Call, none) (string, error) { return "done", nil })
			client := servertest.Connect(t, srv)
			ctx, cancel := context.WithCancel(t.Context())
			waiter := &slowWaiter{Context: ctx, happens: func() {
				require.NoError(t, srv.Shutdown(t.Context()))
				cancel()
			}}
			result, err := client.CallTool(waiter, "x", nil)
			require.NoError(t, err)
			require.Equal(t, "done", result.Text())
		}
	})
}

// A subscription that the server has acknowledged is returned, although it, its connection and the context have ended by
// then. What its Next returns is what the server has said.
func TestAcknowledgedSubscriptionIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range attempts {
			srv := newWeather()
			client := servertest.Connect(t, srv)
			ctx, cancel := context.WithCancel(t.Context())
			waiter := &slowWaiter{Context: ctx, happens: func() {
				srv.RemoveTools("forecast")
				synctest.Wait()
				require.NoError(t, srv.Shutdown(t.Context()))
				cancel()
			}}
			s, err := client.Listen(waiter, mcp.SubscriptionFilter{ToolsListChanged: true})
			require.NoError(t, err)
			change, err := s.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, mcp.NotificationToolsListChanged, change.Method)
			_, err = s.Next(t.Context())
			require.ErrorIs(t, err, io.EOF)
		}
	})
}

// What the server refuses is returned as its error, although the connection has ended by then.
func TestRefusalOfASubscriptionIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range attempts {
			srv := newServer(server.WithLimits(server.Limits{MaxSubscriptions: 1}))
			server.AddStaticResource(srv, server.Resource{URI: "x:y", Name: "y"}, "text")
			client := servertest.Connect(t, srv)
			all := mcp.SubscriptionFilter{ResourcesListChanged: true}
			_, err := client.Listen(t.Context(), all)
			require.NoError(t, err)
			waiter := &slowWaiter{Context: t.Context(), happens: func() { require.NoError(t, srv.Shutdown(t.Context())) }}
			_, err = client.Listen(waiter, all)
			var refusal *mcp.Error
			require.ErrorAs(t, err, &refusal)
		}
	})
}

// After Close, Next returns the changes from before and then an error, also to a caller that waits.
func TestCloseOfASubscriptionEndsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newWeather()
		client := servertest.Connect(t, srv)
		s, err := client.Listen(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
		require.NoError(t, err)
		waiting := make(chan error)
		go func() {
			_, err := s.Next(context.Background())
			waiting <- err
		}()
		synctest.Wait()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-waiting, mcp.ErrClosed)

		s, err = client.Listen(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
		require.NoError(t, err)
		srv.RemoveTools("forecast")
		synctest.Wait()
		require.NoError(t, s.Close())
		_, err = s.Next(t.Context())
		require.NoError(t, err)
		_, err = s.Next(t.Context())
		require.ErrorIs(t, err, mcp.ErrClosed)
		_, err = client.ListTools(t.Context())
		require.NoError(t, err, "the connection goes on")
	})
}
