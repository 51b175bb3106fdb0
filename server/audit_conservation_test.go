package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

// A randomCaller sends random messages over a pipe.
type randomCaller struct {
	*rawPipe
	random *rand.Rand
	modern bool
	ids    int
	sent   map[string]int // by what has a record of its own
}

// step sends one message, or lets time pass.
func (c *randomCaller) step() {
	frame := func(id any, method, params string) string { return legacy(id, method, params) }
	if c.modern {
		frame = func(id any, method, params string) string { return withCaps(id, method, withTasks, params) }
	}
	id := c.ids
	if c.ids++; c.random.IntN(20) == 0 {
		id = c.random.IntN(c.ids) // perhaps one in flight
	}
	switch n := c.random.IntN(20); {
	case n < 10:
		calls := stagedCalls()
		chosen := calls[c.random.IntN(len(calls))]
		c.request(frame(id, "tools/call", call(chosen.tool, chosen.arguments)))
	case n < 12:
		c.request(frame(id, "tools/call", call("wait", `{}`)))
	case n == 12:
		c.request(frame(id, "tools/call", call("work", `{}`)))
	case n == 13:
		c.request(frame(id, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
	case n == 14:
		c.request(frame(id, []string{"ping", "tools/list", "no/such", "completion/complete", "resources/read"}[c.random.IntN(5)], `"uri":"x:y"`))
	case n < 18:
		c.sent["cancel"]++
		c.send(cancelled(c.random.IntN(c.ids + 1)))
	case n == 18:
		c.sent["notification"]++
		c.send(`{"jsonrpc":"2.0","method":"notifications/com.example/act"}`)
	default:
		time.Sleep(time.Duration(c.random.IntN(2000)) * time.Millisecond)
	}
}

func (c *randomCaller) request(frame string) {
	c.sent["request"]++
	c.send(frame)
}

// The records of a random run are its operations: each has one, and the log holds no place when all
// have ended. A log that loses records says how many.
func TestAuditIsConserved(t *testing.T) {
	seen := map[any]bool{} // stages and outcomes
	for seed := range uint64(12) {
		for name, c := range map[string]audit.Config{
			"plain": {}, "strict": {Strict: true}, "small": {MaxRecords: 5}, "small and strict": {Strict: true, MaxRecords: 5},
		} {
			t.Run(fmt.Sprintf("%d %s", seed, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { conserve(t, seed, c, seen) })
			})
		}
	}
	for _, value := range []string{
		"handler", "deadline", "schema", "policy", "scope", "rate", "middleware", "overload", "id", "session", "task",
		"ok", "tool_error", "error", "refused", "cancelled", "abandoned", "ignored",
	} {
		require.True(t, seen[value], "no run has %s", value)
	}
}

func conserve(t *testing.T, seed uint64, c audit.Config, seen map[any]bool) {
	var records []map[string]any
	sink := &slowSink{took: func(e audit.Entry) {
		var r map[string]any
		require.NoError(t, json.Unmarshal(e.Line, &r))
		records = append(records, r)
	}}
	c.Sinks = []audit.Sink{sink}
	log, err := audit.New(c)
	require.NoError(t, err)
	var works atomic.Int64
	srv := newRandomServer(t, log, &works)
	random := rand.New(rand.NewPCG(seed, 7))
	sent := map[string]int{}
	for i, who := range []string{"", "read", "write admin"} {
		ctx := context.Background()
		if who != "" {
			ctx = as(who)
		}
		caller := &randomCaller{rawPipe: dialContext(t, ctx, srv), random: random, modern: i != 1, sent: sent}
		go func() { // answers are not looked at
			for range caller.lines {
			}
		}()
		if !caller.modern {
			caller.request(legacy("init", "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"9"}`))
			caller.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		for range 60 {
			caller.step()
		}
		if random.IntN(2) == 0 {
			caller.conn.Close() // within calls
		}
	}
	over, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_ = srv.Shutdown(over) // says which handlers have not returned
	time.Sleep(time.Hour)  // until they have
	require.NoError(t, log.Close(t.Context()))

	got := map[string]int{}
	for _, r := range records {
		seen[r["stage"]], seen[r["outcome"]] = true, true
		n := 1
		if count, ok := r["count"].(float64); ok {
			n = int(count)
		}
		switch {
		case r["operation"] == audit.OperationLost:
			got["lost"] += n
		case r["operation"] == mcp.NotificationCancelled:
			got["cancel"] += n
		case strings.HasPrefix(r["operation"].(string), "notifications/"):
			got["notification"] += n
		case r["stage"] == "task":
			got["task"] += n
		default:
			got["request"] += n
		}
	}
	state := log.Stats()[0]
	received := srv.Core().Snapshot().Counters.Received
	require.Equal(t, uint64(sent["request"]), received["request"], "what was sent has arrived")
	lost := 0
	for _, n := range state.Lost {
		lost += int(n)
	}
	require.Equal(t, lost, got["lost"], "the records say what was lost: %v", state.Lost)
	want := sent["request"] + sent["cancel"] + sent["notification"] + int(works.Load())
	require.Equal(t, want, got["request"]+got["cancel"]+got["notification"]+got["task"]+lost, "%v: %v", sent, got)
	switch {
	case c.Strict:
		require.Equal(t, sent["request"], got["request"], "no request is without a record")
	case c.MaxRecords == 0:
		require.Zero(t, lost)
		require.Equal(t, sent, map[string]int{"request": got["request"], "cancel": got["cancel"], "notification": got["notification"]})
		require.Equal(t, int(works.Load()), got["task"])
	}
	require.Zero(t, state.Reserved)
	require.Zero(t, state.Waiting)
}

// newRandomServer serves the tools of newStaged, and some that take long. works counts the tasks.
func newRandomServer(t *testing.T, log *audit.Log, works *atomic.Int64) *server.Server {
	srv := newServer(t, server.WithAudit(log), server.WithAuthenticator(byToken{}), server.WithTasks(server.Tasks{}),
		deny(func(_ *auth.Principal, op *auth.Operation) bool { return op.Name == "secret" }),
		server.WithRateLimits(middleware.RateLimit{Name: "few", Requests: 1, Window: time.Hour, Tools: []string{"limited"}}),
		server.WithLimits(server.Limits{MaxInFlight: 4, MaxQueuePerSession: 2}))
	addStaged(srv)
	server.AddTool(srv, server.Tool{Name: "wait", Deadline: 3 * time.Second}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		<-ctx.Done()
		time.Sleep(time.Duration(rand.IntN(40)) * time.Second) // some are abandoned
		return "", ctx.Err()
	})
	server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
		detached, err := c.Detach(ctx, server.TaskOptions{})
		if err != nil {
			return "", err
		}
		if detached != ctx { // the client knows tasks
			works.Add(1)
		}
		time.Sleep(time.Second)
		return "done", nil
	})
	server.AddNotification(srv, "notifications/com.example/act", "", func(context.Context, *server.Notice, struct{}) {})
	return srv
}

// A slowSink takes a moment for each write.
type slowSink struct{ took func(audit.Entry) }

func (*slowSink) Name() string { return "slow" }
func (*slowSink) Close() error { return nil }

func (s *slowSink) Write(_ context.Context, entries []audit.Entry) (int, error) {
	time.Sleep(300 * time.Millisecond)
	for _, e := range entries {
		s.took(e)
	}
	return len(entries), nil
}
