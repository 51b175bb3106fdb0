package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// replicas returns two servers with one store, which hear each other. It must run in a bubble.
func replicas(t *testing.T, opts ...server.Option) (a, b *server.Server, shared *sharedMemory) {
	a, b, shared = newReplicas(t, opts...)
	synctest.Wait()
	return a, b, shared
}

func newReplicas(t *testing.T, opts ...server.Option) (a, b *server.Server, shared *sharedMemory) {
	shared = &sharedMemory{}
	with := append([]server.Option{server.WithStore(shared.store())}, opts...)
	a, b = newReplica(t, with...), newReplica(t, with...)
	for _, srv := range []*server.Server{a, b} {
		t.Cleanup(func() { require.NoError(t, srv.Shutdown(context.Background())) })
	}
	return a, b, shared
}

// inReplicas runs a test with two servers in a bubble.
func inReplicas(t *testing.T, test func(t *testing.T, a, b *server.Server, shared *sharedMemory)) {
	synctest.Test(t, func(t *testing.T) {
		a, b, shared := replicas(t)
		test(t, a, b, shared)
	})
}

// blocking adds a tool that waits for its cancellation, and returns the causes.
func blocking(srv *server.Server) <-chan error {
	causes := make(chan error, 1)
	server.AddTool(srv, server.Tool{Name: "block"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", context.Cause(ctx)
	})
	return causes
}

// A cancellation at one replica reaches the request at another one. A plain call uses no store.
func TestCancelAtAnotherReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		causes := blocking(a)
		session := open(t, a)
		post(b, legacy(2, "tools/call", callPeer), session)
		shared.used()
		require.Equal(t, 200, post(b, legacy(2, "tools/call", callPeer), session).Code)
		require.Zero(t, shared.used())

		answered := make(chan string, 1)
		go func() {
			answered <- post(a, legacy(7, "tools/call", `"name":"block","arguments":{}`), session).Body.String()
		}()
		synctest.Wait()
		require.Equal(t, 202, post(b, notice("notifications/cancelled", `{"requestId":7,"reason":"enough"}`), session).Code)
		require.ErrorIs(t, <-causes, mcp.ErrClientCancelled)
		require.Contains(t, <-answered, "Request cancelled")
	})
}

// A client that uses one id for two requests, which nobody can know if they are at two replicas, cancels both.
func TestCancelOfTwoRequestsWithOneID(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		session := open(t, a)
		at, elsewhere := blocking(a), blocking(b)
		for _, srv := range []*server.Server{a, b} {
			go post(srv, legacy(7, "tools/call", `"name":"block","arguments":{}`), session)
		}
		synctest.Wait()
		require.Equal(t, 202, post(a, notice("notifications/cancelled", `{"requestId":7}`), session).Code)
		require.ErrorIs(t, <-at, mcp.ErrClientCancelled)
		require.ErrorIs(t, <-elsewhere, mcp.ErrClientCancelled)
	})
}

// The answer to a question reaches the replica whose handler has asked.
func TestAnswerAtAnotherReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		server.AddTool(a, server.Tool{Name: "ask"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
			raw, err := c.CallClient(ctx, "roots/list", nil)
			return string(raw), err
		})
		session := open(t, a)
		require.Equal(t, 202, post(b, notice("notifications/initialized", ""), session).Code)
		out := &eventWriter{header: http.Header{}, written: make(chan string, 10)}
		go a.Handler().ServeHTTP(out, legacyRequest(legacy(7, "tools/call", `"name":"ask","arguments":{}`), session))
		asked := <-out.written
		_, id, _ := strings.Cut(asked, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"roots":[]}}`, id)
		require.Equal(t, 202, post(b, answer, session).Code)
		require.Contains(t, <-out.written, `roots`)
		require.Equal(t, 202, post(b, answer, session).Code, "a second one is ignored")
	})
}

// A level that was set while the store was away holds everywhere when it is back.
func TestLogLevelOfAnOutage(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		for _, srv := range []*server.Server{a, b} {
			server.AddTool(srv, server.Tool{Name: "log"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
				return "", c.Log(mcp.LogDebug, "details")
			})
		}
		session := open(t, a)
		use := legacy(3, "tools/call", `"name":"log","arguments":{}`)
		require.Equal(t, 200, post(a, legacy(4, "logging/setLevel", `"level":"info"`), session).Code)
		require.NotContains(t, post(b, use, session).Body.String(), "details")
		shared.fail(errors.New("down"))
		require.Equal(t, 200, post(a, legacy(5, "logging/setLevel", `"level":"debug"`), session).Code)
		require.Contains(t, post(a, use, session).Body.String(), "details")
		shared.fail(nil)
		time.Sleep(time.Minute)
		for _, srv := range []*server.Server{a, b} {
			require.Contains(t, post(srv, use, session).Body.String(), "details")
		}
	})
}

// A change at another replica that comes just after the store has the change of this one, and before this one
// hears of that, is not lost.
func TestSubscriptionThatOvertakesAnother(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		subscribe := func(srv *server.Server, id int, uri, session string) {
			require.Equal(t, 200, post(srv, legacy(id, "resources/subscribe", `"uri":"`+uri+`"`), session).Code)
		}
		for _, srv := range []*server.Server{a, b} {
			for _, name := range []string{"one", "two"} {
				server.AddStaticResource(srv, server.Resource{URI: "test://" + name, Name: name}, "x")
			}
		}
		session := open(t, a)
		post(b, legacy(2, "tools/call", callPeer), session)
		shared.mu.Lock()
		shared.updated = func() {
			subscribe(b, 4, "test://two", session)
			synctest.Wait()
		}
		shared.mu.Unlock()
		subscribe(a, 3, "test://one", session)
		out, end := hear(a, session)
		defer end()
		a.ResourceUpdated("test://two")
		synctest.Wait()
		require.NotEmpty(t, out.written)
		require.Contains(t, <-out.written, "test://two")
	})
}

// Subscriptions at several replicas at the same time all count.
func TestSubscriptionsAtTheSameTime(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		all := []*server.Server{a, b}
		for i := range 10 {
			for _, srv := range all {
				server.AddStaticResource(srv, server.Resource{URI: fmt.Sprintf("test://%d", i), Name: fmt.Sprint(i)}, "x")
			}
		}
		session := open(t, a)
		post(b, legacy(2, "tools/call", callPeer), session)
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				require.Equal(t, 200, post(all[i%2], legacy(10+i, "resources/subscribe", fmt.Sprintf(`"uri":"test://%d"`, i)), session).Code)
			})
		}
		wg.Wait()
		synctest.Wait()
		for _, srv := range all {
			out, end := hear(srv, session)
			for i := range 10 {
				all[i%2].ResourceUpdated(fmt.Sprintf("test://%d", i))
				require.Contains(t, <-out.written, fmt.Sprintf("test://%d", i))
			}
			end()
		}
		require.Equal(t, 200, post(b, legacy(30, "resources/unsubscribe", `"uri":"test://3"`), session).Code)
		synctest.Wait()
		out, end := hear(a, session)
		b.ResourceUpdated("test://3")
		b.ResourceUpdated("test://4")
		require.Contains(t, <-out.written, "test://4")
		end()
	})
}

// Changes of lists reach the clients of all replicas, also where the client has not said that it is
// initialized. After an outage clients are told that lists may have changed.
func TestChangesAtAnotherReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		for _, srv := range []*server.Server{a, b} {
			server.AddTool(srv, server.Tool{Name: "first"}, func(context.Context, *server.Call, none) (string, error) { return "", nil })
		}
		synctest.Wait() // no change is on its way to the other server
		session := open(t, a)
		require.Equal(t, 202, post(b, notice("notifications/initialized", ""), session).Code)
		out, end := hear(a, session)
		defer end()
		server.AddTool(b, server.Tool{Name: "later"}, func(context.Context, *server.Call, none) (string, error) { return "", nil })
		require.Contains(t, <-out.written, "tools/list_changed")

		shared.fail(errors.New("down"))
		server.AddTool(b, server.Tool{Name: "latest"}, func(context.Context, *server.Call, none) (string, error) { return "", nil })
		synctest.Wait()
		require.Empty(t, out.written)
		shared.fail(nil)
		time.Sleep(time.Minute)
		require.Contains(t, <-out.written, "list_changed")
	})
}

// A replica that begins tells the clients of the others that its lists may be others, also if it gets its store when
// its program has registered all. It tells nothing of lists that it does not have.
func TestListsOfAReplicaThatBegins(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, _ *server.Server, shared *sharedMemory) {
		session := open(t, a)
		require.Equal(t, 202, post(a, notice("notifications/initialized", ""), session).Code)
		out, end := hear(a, session)
		defer end()
		next := newReplica(t)
		require.NoError(t, next.SetStore(shared.store()))
		defer next.Shutdown(context.Background())
		synctest.Wait()
		require.Contains(t, <-out.written, "tools/list_changed")
		require.Empty(t, out.written)
	})
}

// Signals that cannot be sent in time are bounded, and the limit is counted.
func TestPendingSignalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := recording(t)
		a, _, shared := replicas(t, server.WithTelemetry(tel), server.WithLimits(server.Limits{MaxPendingSignals: 1}))
		session := open(t, a)
		shared.stall(true)
		for i := range 3 {
			post(a, notice("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, i)), session)
		}
		synctest.Wait()
		require.Contains(t, scrape(t, tel), `vitrine_limit_reached_total{limit="max_pending_signals"} 2`)
		shared.stall(false)
	})
}

// A state that may be used once is accepted by any replica, and once by all of them. While the store is
// away none accepts it.
func TestSingleUseStatesOfReplicas(t *testing.T) {
	a, b, shared := newReplicas(t, server.WithSingleUseStates())
	addTwo(a)
	addTwo(b)
	at, elsewhere := dial(t, a), dial(t, b)
	asked, _ := round(t, at, call("two", `{}`))
	first := retry(call("two", `{}`), asked.RequestState, "one", accepted("1"))
	shared.fail(errors.New("down"))
	_, answer := round(t, elsewhere, first)
	require.Contains(t, answer, `"code":-32603`)
	require.Contains(t, answer, string(mcp.StateUnchecked))
	shared.fail(nil)
	again, _ := round(t, elsewhere, first)
	require.Contains(t, again.InputRequests, "two")
	for _, p := range []*rawPipe{at, elsewhere} {
		_, answer = round(t, p, first)
		refusedState(t, mcp.StateUsed, answer)
	}
	_, answer = round(t, at, retry(call("two", `{}`), again.RequestState, "two", accepted("2")))
	require.Contains(t, answer, `{\"v\":\"1\"} {\"v\":\"2\"}`)
}

// A server has one store, and keys for it.
func TestStoreMistakes(t *testing.T) {
	_, err := server.TryNew("x", "1", server.WithStore(new(store.Memory).Store()))
	require.ErrorContains(t, err, "state keys")
	_, err = server.TryNew("x", "1", server.WithStateKeys(stateKey(1)), server.WithStore(store.Store{}))
	require.ErrorContains(t, err, "values and signals")
	a, _, _ := newReplicas(t)
	require.ErrorContains(t, a.SetStore(new(store.Memory).Store()), "already")
}

// What a session has set holds at each replica, also at one that sees it later.
func TestLogLevelAndSubscriptionsHoldEverywhere(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		late := newReplica(t, server.WithStore(shared.store()), server.WithTelemetry(recording(t)))
		defer late.Shutdown(context.Background())
		all := []*server.Server{a, b, late}
		for _, srv := range all {
			server.AddTool(srv, server.Tool{Name: "log"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
				return "", c.Log(mcp.LogDebug, "details")
			})
			server.AddStaticResource(srv, server.Resource{URI: "test://one", Name: "one"}, "x")
		}
		session := open(t, a)
		use := legacy(3, "tools/call", `"name":"log","arguments":{}`)
		require.NotContains(t, post(b, use, session).Body.String(), "details")
		require.Equal(t, 200, post(a, legacy(4, "logging/setLevel", `"level":"debug"`), session).Code)
		require.Equal(t, 200, post(a, legacy(5, "resources/subscribe", `"uri":"test://one"`), session).Code)
		synctest.Wait()
		for i, srv := range all {
			require.Contains(t, post(srv, use, session).Body.String(), "details", i)
			out, end := hear(srv, session)
			all[(i+1)%3].ResourceUpdated("test://one")
			require.Contains(t, <-out.written, "test://one", i)
			end()
		}
		require.Equal(t, 200, post(a, legacy(6, "resources/unsubscribe", `"uri":"test://one"`), session).Code)
		synctest.Wait()
		require.Contains(t, metricsOf(late), `vitrine_resource_subscription_duration_seconds_count{end="other_replica"} 1`)
	})
}

// A client may end a subscription at a replica that does not have it, such as one that has not heard of it yet.
func TestUnsubscribeHoldsEverywhereAlsoAtAReplicaWithoutTheSubscription(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		const gone, kept = "test://gone", "test://kept"
		for _, srv := range []*server.Server{a, b} {
			server.AddStaticResource(srv, server.Resource{URI: gone, Name: "gone"}, "x")
			server.AddStaticResource(srv, server.Resource{URI: kept, Name: "kept"}, "x")
		}
		session := open(t, a)
		require.Equal(t, 200, post(b, legacy(2, "tools/call", callPeer), session).Code)
		synctest.Wait()
		shared.drop(true) // b has not heard of the subscriptions
		require.Equal(t, 200, post(a, withURI(3, "resources/subscribe", gone), session).Code)
		require.Equal(t, 200, post(a, withURI(4, "resources/subscribe", kept), session).Code)
		require.Equal(t, 200, post(b, withURI(5, "resources/unsubscribe", gone), session).Code)
		shared.drop(false)
		time.Sleep(time.Minute)

		for _, srv := range []*server.Server{a, b} {
			out, end := hear(srv, session)
			srv.ResourceUpdated(gone)
			srv.ResourceUpdated(kept)
			require.Contains(t, <-out.written, kept)
			synctest.Wait()
			require.Empty(t, out.written)
			end()
		}
	})
}

// A subscription ends also if the resource was removed, and the replica that is told has not heard of it.
func TestUnsubscribeFromARemovedResourceHoldsEverywhere(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		const uri = "test://gone"
		both := []*server.Server{a, b}
		add := func() {
			for _, srv := range both {
				server.AddStaticResource(srv, server.Resource{URI: uri, Name: "gone"}, "x")
			}
		}
		add()
		session := open(t, a)
		require.Equal(t, 200, post(b, legacy(2, "tools/call", callPeer), session).Code)
		synctest.Wait()
		shared.drop(true) // b has not heard of the subscription
		require.Equal(t, 200, post(a, withURI(3, "resources/subscribe", uri), session).Code)
		for _, srv := range both {
			srv.RemoveResources(uri)
		}
		require.NotContains(t, post(b, withURI(4, "resources/unsubscribe", uri), session).Body.String(), `"error"`)
		require.Contains(t, post(b, withURI(5, "resources/unsubscribe", uri), session).Body.String(), `"error"`, "nobody has it any more")
		shared.drop(false)
		time.Sleep(time.Minute)
		add()
		time.Sleep(time.Minute)
		out, end := hear(a, session)
		a.ResourceUpdated(uri)
		synctest.Wait()
		require.Empty(t, out.written)
		end()
	})
}

// hear opens the own stream of a session, until end is called.
func hear(srv *server.Server, session string) (out *eventWriter, end func()) {
	out = &eventWriter{header: http.Header{}, written: make(chan string, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	r := legacyRequest("", session).WithContext(ctx)
	r.Method = http.MethodGet
	go srv.Handler().ServeHTTP(out, r)
	synctest.Wait()
	return out, func() {
		cancel()
		synctest.Wait()
	}
}

func legacyRequest(body, session string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	name, value, _ := strings.Cut(session, ": ")
	r.Header.Set(name, value)
	return r
}

// An eventWriter is a response whose events a test reads one by one.
type eventWriter struct {
	header  http.Header
	written chan string
}

func (w *eventWriter) Header() http.Header { return w.header }
func (w *eventWriter) WriteHeader(int)     {}
func (w *eventWriter) Flush()              {}

func (w *eventWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "data:") && strings.Contains(string(p), "jsonrpc") {
		w.written <- string(p)
	}
	return len(p), nil
}

var _ io.Writer = (*eventWriter)(nil)
