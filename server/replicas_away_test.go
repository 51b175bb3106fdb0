package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// The tests of this file hold rows of the table "When the store is away" in docs/replicas.md, which names the
// tests of all its rows.

// A cancellation for another replica is lost while the store is away, and counted, and so is an answer after thirty seconds.
// They do not come later.
func TestSignalsOfAnOutageAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := recording(t)
		a, b, shared := replicas(t, server.WithTelemetry(tel))
		causes := blocking(a)
		session := open(t, a)
		id, out := askRoots(t, a, b, session)
		go post(a, legacy(8, "tools/call", `"name":"block","arguments":{}`), session)
		synctest.Wait()

		shared.fail(errors.New("down"))
		require.Equal(t, 202, post(b, notice("notifications/cancelled", `{"requestId":8}`), session).Code)
		require.Equal(t, 202, post(b, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"roots":[]}}`, id), session).Code)
		time.Sleep(35 * time.Second)
		require.Contains(t, scrape(t, tel), `vitrine_signals_total{outcome="lost"} 2`)
		shared.fail(nil)
		time.Sleep(15 * time.Second) // the replicas ask the store again, and no request is at its deadline
		require.Empty(t, causes)
		require.Empty(t, out.written)

		require.Equal(t, 202, post(b, notice("notifications/cancelled", `{"requestId":8}`), session).Code)
		<-causes
		require.Equal(t, 202, post(b, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"roots":[]}}`, id), session).Code)
		require.Contains(t, <-out.written, "roots", "a client that says it again is heard")
	})
}

// An answer for another replica outlasts a short outage, the rest of a long one, and a moment in which only that replica
// has lost its connection: the client has been told that its answer is taken.
func TestAnswerOutlastsAShortOutage(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		all    bool          // operations of the store fail, and not only signals
		before time.Duration // since when they do
		gone   bool          // the store passes it on, to a connection that is gone
		after  time.Duration // how long they still do
	}{
		"the store is away":                 {errors.New("down"), true, 0, false, 1500 * time.Millisecond},
		"the store was away for long":       {errors.New("down"), true, 5 * time.Minute, false, 1500 * time.Millisecond},
		"the store refuses signals":         {errors.New("down"), false, 0, false, 1500 * time.Millisecond},
		"the other replica does not listen": {store.ErrNoReceiver, false, 0, false, 1500 * time.Millisecond},
		"its connection is gone":            {errors.New("down"), false, 0, true, 1500 * time.Millisecond},
		"its connection is gone for longer": {errors.New("down"), false, 0, true, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, shared := replicas(t, server.WithLimits(server.Limits{RequestTimeout: time.Hour}))
				session := open(t, a)
				id, out := askRoots(t, a, b, session)
				fail := shared.refusePublish
				if tt.all {
					fail = shared.fail
				}
				if tt.gone {
					fail = func(err error) { shared.drop(err != nil) }
				}
				fail(tt.err)
				for began := time.Now(); time.Since(began) < tt.before; time.Sleep(time.Second) {
					require.Equal(t, 202, post(b, notice("notifications/cancelled", `{"requestId":8}`), session).Code)
				}
				require.Equal(t, 202, post(b, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"roots":[]}}`, id), session).Code)
				time.Sleep(tt.after)
				require.Empty(t, out.written)
				fail(nil)
				require.Contains(t, <-out.written, "roots")
			})
		})
	}
}

// signalsLost returns the count of lost signals.
func signalsLost(t *testing.T, tel *telemetry.Telemetry) (line string) {
	t.Helper()
	_, line, _ = strings.Cut(scrape(t, tel), `vitrine_signals_total{outcome="lost"} `)
	line, _, _ = strings.Cut(line, "\n")
	require.NotEmpty(t, line)
	return line
}

// An answer that waits when its replica shuts down is tried once more then, and counts once.
func TestAnswerThatWaitsAtTheShutdown(t *testing.T) {
	for name, tt := range map[string]struct {
		back bool // the store is back when the replica shuts down
		lost string
	}{"the store is away": {false, "1"}, "the store is back": {true, "0"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tel := recording(t)
				a, b, shared := replicas(t, server.WithTelemetry(tel))
				session := open(t, a)
				id, out := askRoots(t, a, b, session)
				time.Sleep(5 * time.Second) // what the replicas say at their start is said
				shared.refusePublish(store.ErrNoReceiver)
				require.Equal(t, 202, post(b, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"roots":[]}}`, id), session).Code)
				time.Sleep(4 * time.Second)
				if tt.back {
					shared.refusePublish(nil)
				}
				require.NoError(t, b.Shutdown(t.Context()))
				synctest.Wait()
				require.Equal(t, tt.lost, signalsLost(t, tel))
				require.Equal(t, tt.back, len(out.written) == 1)
			})
		})
	}
}

// askRoots has a tool of one replica ask the client of a session for its roots, and returns the id of the question, and
// what comes on its stream.
func askRoots(t *testing.T, a, b *server.Server, session string) (id string, out *eventWriter) {
	t.Helper()
	server.AddTool(a, server.Tool{Name: "ask"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
		raw, err := c.CallClient(ctx, "roots/list", nil)
		return string(raw), err
	})
	require.Equal(t, 202, post(b, notice("notifications/initialized", ""), session).Code)
	out = &eventWriter{header: http.Header{}, written: make(chan string, 10)}
	go a.Handler().ServeHTTP(out, legacyRequest(legacy(7, "tools/call", `"name":"ask","arguments":{}`), session))
	_, id, _ = strings.Cut(<-out.written, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	return id, out
}

// A subscription of an outage holds at its replica, and everywhere when the store is back, unless the session
// has changed more than the replica remembers.
func TestSubscriptionsOfAnOutage(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		const remembered = 256
		uri := func(i int) string { return fmt.Sprintf("test://%d", i) }
		for i := range remembered + 2 {
			for _, srv := range []*server.Server{a, b} {
				server.AddStaticResource(srv, server.Resource{URI: uri(i), Name: fmt.Sprint(i)}, "x")
			}
		}
		session := open(t, a)
		require.Equal(t, 200, post(b, legacy(2, "tools/call", callPeer), session).Code)
		synctest.Wait()
		shared.fail(errors.New("down"))
		for i := range remembered + 1 {
			require.Equal(t, 200, post(a, legacy(10+i, "resources/subscribe", `"uri":"`+uri(i)+`"`), session).Code)
		}
		out, end := hear(a, session)
		a.ResourceUpdated(uri(remembered))
		require.Contains(t, <-out.written, uri(remembered), "it holds here")
		end()

		shared.fail(nil)
		time.Sleep(time.Minute)
		out, end = hear(b, session)
		defer end()
		b.ResourceUpdated(uri(remembered))
		b.ResourceUpdated(uri(remembered - 1))
		require.Contains(t, <-out.written, uri(remembered-1), "it holds everywhere, and the one after it does not")
	})
}

// A stream that begins when the store is back can be resumed at any replica.
func TestStreamAfterAnOutageCanBeResumed(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		addReporter(a)
		session := openLatest(t, a)
		shared.fail(errors.New("down"))
		require.NotContains(t, post(a, legacy(8, "tools/call", callReporter(3)), session).Body.String(), "id: ")
		shared.fail(nil)
		time.Sleep(time.Minute)
		require.Contains(t, resumeAt(b, session, leaveAt(t, a, session)).Body.String(), "the answer")
	})
}

// Changes of lists and notifications of the program reach the subscribers of their replica while the store is
// away. When it is back subscribers elsewhere are told that lists may have changed, and hear nothing of the
// notifications.
func TestChangesOfAnOutage(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		for _, srv := range []*server.Server{a, b} {
			server.AddTool(srv, server.Tool{Name: "first"}, func(context.Context, *server.Call, none) (string, error) { return "", nil })
			server.AddExtension(srv, server.Extension{ID: thing})
		}
		synctest.Wait() // no change is on its way to the other server
		begin := func(srv *server.Server) (out *eventWriter, end func()) {
			w := post(srv, legacy(1, "initialize",
				`"protocolVersion":"2025-11-25","capabilities":{"extensions":{"`+thing+`":{}}},"clientInfo":{"name":"c","version":"1"}`))
			session := "Mcp-Session-Id: " + w.Header().Get("Mcp-Session-Id")
			require.Equal(t, 202, post(srv, notice("notifications/initialized", ""), session).Code)
			return hear(srv, session)
		}
		there, endThere := begin(a)
		defer endThere()
		here, endHere := begin(b)
		defer endHere()

		shared.fail(errors.New("down"))
		server.AddTool(b, server.Tool{Name: "later"}, func(context.Context, *server.Call, none) (string, error) { return "", nil })
		require.Contains(t, <-here.written, "tools/list_changed")
		require.NoError(t, b.Notify(thing, happened, nil))
		require.Contains(t, <-here.written, happened)
		synctest.Wait()
		require.Empty(t, there.written)

		shared.fail(nil)
		time.Sleep(time.Minute)
		require.Contains(t, <-there.written, "list_changed")
		for len(there.written) > 0 {
			require.NotContains(t, <-there.written, happened)
		}
		require.NoError(t, b.Notify(thing, happened, nil))
		require.Contains(t, <-there.written, happened, "later ones reach it")
	})
}

// A server whose readiness depends on the store is not ready while that is away, also if no request needs it then.
// Others are ready.
func TestReadinessWhileTheStoreIsAway(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		a.AddReadiness("store", a.StoreReady)
		session := open(t, a)
		require.NoError(t, a.Ready(t.Context()))
		shared.fail(errors.New("down"))
		require.Equal(t, 202, post(a, notice("notifications/cancelled", `{"requestId":8}`), session).Code)
		time.Sleep(time.Minute)
		require.EqualError(t, a.Ready(t.Context()), "store: the store that the replicas share is away")
		require.NoError(t, b.Ready(t.Context()))
		late := newReplica(t, server.WithStore(shared.store()))
		defer func() { require.NoError(t, late.Shutdown(context.Background())) }()
		synctest.Wait()
		require.Error(t, late.StoreReady(t.Context()), "it has never heard the others")
		shared.fail(nil)
		time.Sleep(time.Minute)
		require.NoError(t, a.Ready(t.Context()))
		require.NoError(t, late.StoreReady(t.Context()))
	})
}

// heard returns the notifications that have come so far, also those of the next seconds, in which changes that come
// fast become one.
func heard(lines <-chan string) string {
	time.Sleep(5 * time.Second)
	var all []string
	for len(lines) > 0 {
		all = append(all, <-lines)
	}
	return strings.Join(all, "")
}

// Clients at one replica that have subscribed to a resource and to changes of lists hear of those at another one again
// when the store is back: of what may have changed meanwhile, and of each later change.
func TestResourceUpdatesOfAnOutage(t *testing.T) {
	const (
		updated = `"notifications/resources/updated"`
		changed = `"notifications/tools/list_changed"`
	)
	for name, away := range map[string]func(shared *sharedMemory, on bool){
		"it hangs":         (*sharedMemory).stall,
		"it loses signals": (*sharedMemory).drop,
		"it fails": func(shared *sharedMemory, on bool) {
			if shared.fail(nil); on {
				shared.fail(errors.New("down"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
				back := func() {
					away(shared, false)
					time.Sleep(time.Minute)
				}
				defer back() // a shutdown would wait for a store that hangs
				for _, srv := range []*server.Server{a, b} {
					server.AddStaticResource(srv, server.Resource{URI: "test://one", Name: "one"}, "x")
				}
				tools := 0
				change := func() {
					tools++
					server.AddTool(b, server.Tool{Name: fmt.Sprintf("tool%d", tools)}, text(""))
					b.ResourceUpdated("test://one")
				}
				time.Sleep(5 * time.Second) // no change is on its way to the other server
				session := open(t, a)
				require.Equal(t, 202, post(a, notice("notifications/initialized", ""), session).Code)
				require.Equal(t, 200, post(b, withURI(2, "resources/subscribe", "test://one"), session).Code)
				own, end := hear(a, session)
				defer end()
				modern := dial(t, a)
				modern.ask(listenTo(1, `{"toolsListChanged":true,"resourceSubscriptions":["test://one"]}`))
				expectBoth := func(when string) {
					t.Helper()
					for _, lines := range []<-chan string{own.written, modern.lines} {
						all := heard(lines)
						require.Equal(t, 1, strings.Count(all, updated), "%s: %s", when, all)
						require.Equal(t, 1, strings.Count(all, changed), "%s: %s", when, all)
					}
				}
				change()
				expectBoth("before")

				away(shared, true)
				change()
				require.Empty(t, heard(own.written)+heard(modern.lines))
				back()
				for _, lines := range []<-chan string{own.written, modern.lines} {
					all := heard(lines)
					require.Contains(t, all, updated, "it may have changed")
					require.Contains(t, all, changed, "it may have changed")
				}
				for range 2 {
					change()
					expectBoth("after")
				}
			})
		})
	}
}
