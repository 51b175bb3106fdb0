package middleware_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// Calls of one caller pass until its bucket is empty, and again when a token has come back. Another
// caller, another tool and other methods are not limited by it.
func TestRateLimitsRefuseWhatComesTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited, err := middleware.RateLimits(middleware.RateLimit{
			Name: "calls", Requests: 60, Window: time.Minute, Burst: 2, Tools: []string{"search"},
			Per: []string{middleware.PerPrincipal, middleware.PerAddress},
		})
		require.NoError(t, err)
		h := limited(answering("done"))
		send := func(subject, addr, method, tool string) error {
			_, err := h(t.Context(), &middleware.Request{
				Route: middleware.NewRoute(method, tool, tool), Target: tool,
				Principal: &auth.Principal{Subject: subject}, Peer: middleware.Peer{Addr: addr},
			})
			return err
		}
		const tools = mcp.MethodToolsCall
		require.NoError(t, send("ann", "192.0.2.1:1", tools, "search"))
		require.NoError(t, send("ann", "192.0.2.1:2", tools, "search"))
		refusal, ok := mcp.AsRefusal(send("ann", "192.0.2.1:3", tools, "search"))
		require.True(t, ok)
		require.Equal(t, 429, refusal.Status)
		require.Equal(t, "calls", refusal.Limit)
		require.Equal(t, 1, refusal.RetryAfterSeconds())
		require.NoError(t, send("bob", "192.0.2.1:1", tools, "search"))
		require.NoError(t, send("ann", "192.0.2.2:1", tools, "search"))
		require.NoError(t, send("ann", "192.0.2.1:1", tools, "list"))
		require.NoError(t, send("ann", "192.0.2.1:1", mcp.MethodPromptsGet, "search"))
		time.Sleep(time.Second)
		require.NoError(t, send("ann", "192.0.2.1:1", tools, "search"))
		require.Error(t, send("ann", "192.0.2.1:1", tools, "search"))
	})
}

// A limit for a tool counts its calls also if their route has no name. All other calls without a name in
// their route are one tool.
func TestRateLimitCoversNamesWithoutARoute(t *testing.T) {
	limited, err := middleware.RateLimits(middleware.RateLimit{
		Name: "search", Requests: 1, Window: time.Hour, Tools: []string{"search"},
	}, middleware.RateLimit{
		Name: "calls", Requests: 2, Window: time.Hour, Per: []string{middleware.PerTool},
	})
	require.NoError(t, err)
	h := limited(answering("done"))
	send := func(tool string) error {
		_, err := h(t.Context(), &middleware.Request{Route: middleware.NewRoute(mcp.MethodToolsCall, "", ""), Target: tool})
		return err
	}
	require.NoError(t, send("search"))
	require.Error(t, send("search"))
	require.NoError(t, send("made up"))
	require.NoError(t, send("made up, too"))
	require.Error(t, send("another one"))
}

// A middleware does not know the connection of a request. Byte streams without an address share
// one bucket.
func TestStreamsWithoutAnAddressShareARateLimit(t *testing.T) {
	limited, err := middleware.RateLimits(middleware.RateLimit{
		Name: "calls", Requests: 1, Window: time.Hour, Per: []string{middleware.PerAddress},
	})
	require.NoError(t, err)
	h := limited(answering("done"))
	send := func(peer middleware.Peer) error {
		_, err := h(t.Context(), &middleware.Request{Route: middleware.NewRoute(mcp.MethodToolsCall, "search", "search"), Peer: peer})
		return err
	}
	require.NoError(t, send(middleware.Peer{Transport: "stdio", SessionID: "one"}))
	require.Error(t, send(middleware.Peer{Transport: "stdio", SessionID: "two"}))
	require.NoError(t, send(middleware.Peer{Transport: "stdio", Addr: "192.0.2.1:1"}))
}

func TestWrongRateLimitsAreAnError(t *testing.T) {
	_, err := middleware.RateLimits(middleware.RateLimit{Name: "calls", Requests: 1})
	require.ErrorContains(t, err, `rate limit "calls": the window must be between`)
}

func ExampleRateLimits() {
	limited, err := middleware.RateLimits(middleware.RateLimit{
		Name: "search", Requests: 2, Window: time.Minute, Per: []string{middleware.PerPrincipal, middleware.PerTool},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := limited(func(context.Context, *middleware.Request) (mcp.Result, error) { return &mcp.CallToolResult{}, nil })
	for range 3 {
		_, err := h(context.Background(), &middleware.Request{
			Route: middleware.NewRoute(mcp.MethodToolsCall, "search", "search"), Principal: &auth.Principal{Subject: "ann"},
		})
		fmt.Println(err)
	}

	// Output:
	// <nil>
	// <nil>
	// refused: rate_limited: there are too many requests: the limit search is 2 in 1m0s
}
