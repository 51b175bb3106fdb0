package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A forgetting test has a session whose client has set the log level debug and subscribed to two resources, at two
// replicas that know it, and a store that has lost all that.
type forgetting struct {
	t       *testing.T
	a, b    *server.Server
	shared  *sharedMemory
	session string
}

const (
	firstURI  = "test://first"
	secondURI = "test://second"
	thirdURI  = "test://third"
)

func inForgetting(t *testing.T, test func(f *forgetting)) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		f := &forgetting{t: t, a: a, b: b, shared: shared}
		for _, srv := range []*server.Server{a, b} {
			f.prepare(srv)
		}
		f.session = open(t, a)
		f.set(a, "logging/setLevel", `"level":"debug"`)
		f.set(a, "resources/subscribe", `"uri":"`+firstURI+`"`)
		f.set(a, "resources/subscribe", `"uri":"`+secondURI+`"`)
		require.Equal(t, 200, post(b, legacy(1, "tools/call", callPeer), f.session).Code)
		synctest.Wait()
		shared.lose()
		test(f)
	})
}

func (f *forgetting) prepare(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "log"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
		return "", c.Log(mcp.LogDebug, "details")
	})
	for _, uri := range []string{firstURI, secondURI, thirdURI} {
		server.AddStaticResource(srv, server.Resource{URI: uri, Name: uri}, "x")
	}
}

// newReplica returns one that sees the session for the first time.
func (f *forgetting) newReplica() *server.Server {
	srv := newReplica(f.t, server.WithStore(f.shared.store()))
	f.t.Cleanup(func() { require.NoError(f.t, srv.Shutdown(context.Background())) })
	f.prepare(srv)
	synctest.Wait()
	return srv
}

// set has the client set something at a replica.
func (f *forgetting) set(at *server.Server, method, params string) {
	f.t.Helper()
	require.Equal(f.t, 200, post(at, legacy(2, method, params), f.session).Code)
}

// requireLevel checks whether the client gets messages of the level debug.
func (f *forgetting) requireLevel(debug bool, all ...*server.Server) {
	f.t.Helper()
	synctest.Wait()
	for _, srv := range all {
		body := post(srv, legacy(3, "tools/call", `"name":"log","arguments":{}`), f.session).Body.String()
		if debug {
			require.Contains(f.t, body, "details")
		} else {
			require.NotContains(f.t, body, "details")
		}
	}
}

// requireSubscribed checks to which resources a replica has the session subscribed.
func (f *forgetting) requireSubscribed(at *server.Server, uris ...string) {
	f.t.Helper()
	synctest.Wait()
	out, end := hear(at, f.session)
	defer end()
	for _, uri := range uris {
		at.ResourceUpdated(uri)
		select {
		case text := <-out.written:
			require.Contains(f.t, text, uri)
		case <-time.After(time.Minute):
			require.Fail(f.t, "it is not subscribed to "+uri)
		}
	}
}

// requireNotSubscribed checks that the session is not subscribed to a resource.
func (f *forgetting) requireNotSubscribed(at *server.Server, uri string) {
	f.t.Helper()
	out, end := hear(at, f.session)
	defer end()
	at.ResourceUpdated(uri)
	time.Sleep(time.Second)
	require.Empty(f.t, out.written)
}

// What a client sets first after the loss joins what its replica knows, and does not replace it.
func TestFirstChangeAfterTheStoreHasForgotten(t *testing.T) {
	inForgetting(t, func(f *forgetting) {
		f.set(f.a, "resources/subscribe", `"uri":"`+thirdURI+`"`)
		for _, srv := range []*server.Server{f.a, f.b, f.newReplica()} {
			f.requireLevel(true, srv)
			f.requireSubscribed(srv, firstURI, secondURI, thirdURI)
		}
	})
}

// What a client sets at a replica that sees its session for the first time holds at all replicas, and those have the
// rest of what they know shared again.
func TestChangeAtANewReplicaAfterTheStoreHasForgotten(t *testing.T) {
	for level, debug := range map[string]bool{"debug": true, "error": false} {
		t.Run(level, func(t *testing.T) {
			inForgetting(t, func(f *forgetting) {
				c := f.newReplica()
				f.set(c, "logging/setLevel", `"level":"`+level+`"`)
				f.requireLevel(debug, f.a, f.b, c, f.newReplica())
				f.requireSubscribed(c, firstURI, secondURI)
			})
		})
	}
}

// Replicas that know different states when the store loses them agree afterwards, also if what has happened since has the
// same revision.
func TestRevisionsAfterTheStoreHasForgotten(t *testing.T) {
	for changes := range 5 {
		t.Run(fmt.Sprint(changes), func(t *testing.T) {
			inForgetting(t, func(f *forgetting) {
				c := f.newReplica()
				f.shared.drop(true) // so that nobody hears of the first ones
				for range changes {
					f.set(c, "logging/setLevel", `"level":"info"`)
				}
				f.shared.drop(false)
				f.set(c, "logging/setLevel", `"level":"error"`)
				time.Sleep(time.Minute)
				f.requireLevel(false, f.a, f.b, c, f.newReplica())
				f.requireSubscribed(c, firstURI, secondURI)
			})
		})
	}
}

// A replica that was cut off from the signals, as when the store's server has restarted, has shared again what was lost.
func TestReplicaSharesAgainWhatTheStoreHasForgotten(t *testing.T) {
	inForgetting(t, func(f *forgetting) {
		f.shared.drop(true)
		f.shared.drop(false)
		time.Sleep(time.Minute)
		c := f.newReplica()
		f.requireLevel(true, c)
		f.requireSubscribed(c, firstURI, secondURI)
		f.shared.used()
		time.Sleep(time.Minute)
		require.Less(t, f.shared.used(), 100, "that comes to an end")
	})
}

// A store that has lost the last write of a session, as in a failover, gets it again, and nobody goes back. What a client
// has set since then counts, also if its state has the same revision.
func TestStoreThatHasLostTheLastWrite(t *testing.T) {
	for name, since := range map[string]string{"nobody has set anything since": "", "a client has": "error"} {
		t.Run(name, func(t *testing.T) {
			inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
				f := &forgetting{t: t, a: a, b: b, shared: shared}
				f.prepare(a)
				f.prepare(b)
				f.session = open(t, a)
				key := "session/{" + innerID(t, b, f.session) + "}"
				f.set(a, "resources/subscribe", `"uri":"`+firstURI+`"`)
				f.set(a, "resources/subscribe", `"uri":"`+secondURI+`"`)
				f.set(a, "logging/setLevel", `"level":"debug"`)
				before, err := shared.Memory.Get(t.Context(), key)
				require.NoError(t, err)
				time.Sleep(time.Second)
				f.set(a, "resources/unsubscribe", `"uri":"`+secondURI+`"`)
				synctest.Wait()
				require.NoError(t, shared.Memory.Update(t.Context(), key, func([]byte) ([]byte, time.Duration, error) { return before, time.Hour, nil }))
				time.Sleep(time.Second)
				all := []*server.Server{a, b}
				if since != "" {
					c := f.newReplica()
					all = append(all, c)
					f.set(c, "logging/setLevel", `"level":"`+since+`"`)
				}
				shared.drop(true)
				shared.drop(false)
				time.Sleep(time.Minute)
				f.requireLevel(since == "", append(all, f.newReplica())...)
				f.requireSubscribed(b, firstURI)
				if since == "" {
					f.requireNotSubscribed(b, secondURI)
				}
			})
		})
	}
}

// innerID returns the id under which the store has what replicas share of a session.
func innerID(t *testing.T, srv *server.Server, session string) string {
	t.Helper()
	_, id, found := strings.Cut(post(srv, legacy(1, "tools/call", callPeer), session).Body.String(), "session=")
	require.True(t, found)
	id, _, _ = strings.Cut(id, `"`)
	return id
}

// Nothing is put back of a session whose id has ended, although its requests still run at two replicas.
func TestEndedSessionIsNotPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, shared := replicas(t, server.WithLimits(server.Limits{SessionLife: time.Minute}))
		synctest.Wait()
		session := open(t, a)
		require.Equal(t, 200, post(a, legacy(1, "logging/setLevel", `"level":"debug"`), session).Code)
		require.Equal(t, 200, post(b, legacy(1, "tools/call", callPeer), session).Code)
		_, end := hear(a, session)
		time.Sleep(50 * time.Second)
		for i, srv := range []*server.Server{a, b} {
			blocking(srv)
			go post(srv, legacy(5+i, "tools/call", `"name":"block","arguments":{}`), session)
		}
		synctest.Wait()
		time.Sleep(11 * time.Second)
		shared.used()
		end()
		time.Sleep(5 * time.Second)
		require.Less(t, shared.used(), 10)
	})
}

// A store that loses each value at once keeps replicas from nothing else: each puts a session back once a second.
func TestStoreThatLosesWhatIsPutBack(t *testing.T) {
	inForgetting(t, func(f *forgetting) {
		key := "session/{" + innerID(f.t, f.a, f.session) + "}"
		var kept atomic.Bool
		var after func()
		after = func() {
			if !kept.Load() {
				_ = f.shared.Memory.Update(context.Background(), key, func([]byte) ([]byte, time.Duration, error) { return nil, 0, nil })
				f.shared.mu.Lock()
				defer f.shared.mu.Unlock()
				f.shared.updated = after
			}
		}
		f.shared.mu.Lock()
		f.shared.updated = after
		f.shared.mu.Unlock()
		f.set(f.a, "resources/subscribe", `"uri":"`+thirdURI+`"`)
		time.Sleep(10 * time.Second)
		f.shared.used()
		time.Sleep(10 * time.Second)
		require.Less(f.t, f.shared.used(), 200)
		kept.Store(true)
		time.Sleep(10 * time.Second)
		f.requireSubscribed(f.b, firstURI, secondURI, thirdURI)
	})
}
