package server_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/store"
)

// storeTimeout is the limit store_timeout of these tests.
const storeTimeout = 250 * time.Millisecond

// inSlowReplicas runs a test with two servers in a bubble, whose store the test may slow down, and with a session that
// was opened at the first of them.
func inSlowReplicas(t *testing.T, test func(t *testing.T, a, b *server.Server, shared *sharedMemory, session string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b, shared := replicas(t, server.WithLimits(server.Limits{StoreTimeout: storeTimeout}))
		defer func() { // a shutdown would wait for a store that hangs
			shared.delay(0)
			time.Sleep(time.Minute)
		}()
		server.AddStaticResource(b, server.Resource{URI: "test://one", Name: "one"}, "x")
		session := open(t, a)
		time.Sleep(5 * time.Second) // nothing is on its way
		test(t, a, b, shared, session)
	})
}

// The first message of a session at a replica waits for a store that hangs until store_timeout, and is then served. A
// message with a change for the other replicas waits as long again for that. A store that hangs on is not asked any more.
func TestFirstMessageWhileTheStoreHangs(t *testing.T) {
	for name, tt := range map[string]struct {
		method, body string
		status       int
		changes      bool // something of which the other replicas hear
	}{
		"a call":         {http.MethodPost, legacy(2, "tools/call", callPeer), 200, false},
		"a notification": {http.MethodPost, notice("notifications/cancelled", `{"requestId":99}`), 202, false},
		"a log level":    {http.MethodPost, legacy(2, "logging/setLevel", `"level":"debug"`), 200, true},
		"a subscription": {http.MethodPost, withURI(2, "resources/subscribe", "test://one"), 200, true},
		"a deletion":     {http.MethodDelete, "", 204, true},
	} {
		t.Run(name, func(t *testing.T) {
			inSlowReplicas(t, func(t *testing.T, _, b *server.Server, shared *sharedMemory, session string) {
				shared.delay(time.Hour)
				waits := func(of string) (status int, waited time.Duration) {
					began := time.Now()
					status = send(b, tt.method, tt.body, of).Code
					return status, time.Since(began)
				}
				status, waited := waits(session)
				require.Equal(t, tt.status, status)
				want := storeTimeout
				if tt.changes {
					want *= 2
				}
				require.Equal(t, want, waited)
				if tt.method == http.MethodPost {
					status, waited = waits(session)
					require.Equal(t, tt.status, status)
					require.Equal(t, want-storeTimeout, waited, "it is known")
				}
				for range 5 {
					post(b, legacy(3, "logging/setLevel", `"level":"info"`), open(t, b))
				}
				status, waited = waits(open(t, b))
				require.Equal(t, tt.status, status)
				require.Zero(t, waited, "the store is not asked any more")
			})
		})
	}
}

// A GET with which a session comes to a replica, while the store hangs, is answered as other messages with a change.
func TestOwnStreamIsOpenedWhileTheStoreHangs(t *testing.T) {
	inSlowReplicas(t, func(t *testing.T, _, b *server.Server, shared *sharedMemory, session string) {
		shared.delay(time.Hour)
		out := &answered{eventWriter: eventWriter{header: http.Header{}, written: make(chan string, 100)}, status: make(chan int, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := legacyRequest("", session).WithContext(ctx)
		r.Method = http.MethodGet
		began := time.Now()
		go b.Handler().ServeHTTP(out, r)
		require.Equal(t, 200, <-out.status)
		require.Equal(t, 2*storeTimeout, time.Since(began))
		server.AddTool(b, server.Tool{Name: "x"}, text("x"))
		require.Contains(t, <-out.written, "tools/list_changed", "it works")
	})
}

// An answered response says when its status was written.
type answered struct {
	eventWriter
	status chan int
}

func (w *answered) WriteHeader(status int) { w.status <- status }

// Several messages with which a session comes to a replica wait together. Those of sessions that the replica knows do
// not wait.
func TestFirstMessagesWaitTogether(t *testing.T) {
	inSlowReplicas(t, func(t *testing.T, _, b *server.Server, shared *sharedMemory, session string) {
		known := open(t, b)
		shared.delay(time.Hour)
		began := time.Now()
		ended := make(chan time.Duration, 10)
		for i := range cap(ended) { // two requests with one id would not be in flight together
			go func() {
				assert.Equal(t, 200, post(b, legacy(2+i, "tools/call", callPeer), session).Code)
				ended <- time.Since(began)
			}()
		}
		synctest.Wait()
		require.Equal(t, 200, post(b, legacy(2, "tools/call", callPeer), known).Code)
		require.Zero(t, time.Since(began))
		for range cap(ended) {
			require.LessOrEqual(t, <-ended, storeTimeout)
		}
	})
}

// A store that is slow, and answers within store_timeout, has the say: a session that was deleted elsewhere has ended.
func TestFirstMessageWhileTheStoreIsSlow(t *testing.T) {
	inSlowReplicas(t, func(t *testing.T, a, _ *server.Server, shared *sharedMemory, session string) {
		deleted := open(t, a)
		require.Equal(t, 204, send(a, http.MethodDelete, "", deleted).Code)
		late := newReplica(t, server.WithStore(shared.store()), server.WithLimits(server.Limits{StoreTimeout: storeTimeout}))
		defer late.Shutdown(context.Background())
		time.Sleep(5 * time.Second)
		const slow = storeTimeout - time.Millisecond
		shared.delay(slow)
		for of, status := range map[string]int{session: 200, deleted: 404} {
			began := time.Now()
			require.Equal(t, status, post(late, legacy(2, "tools/call", callPeer), of).Code)
			require.Equal(t, slow, time.Since(began))
		}
	})
}

// A slowToListen store needs a while until a replica hears the others.
type slowToListen struct{ store.Signals }

func (s slowToListen) Listen(ctx context.Context, channels []string, receive func(string, []byte), missed func()) error {
	time.Sleep(time.Second)
	return s.Signals.Listen(ctx, channels, receive, missed)
}

// A client that subscribes before its replica listens to the others learns that something may have changed meanwhile.
func TestChangeBeforeAReplicaListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, shared := replicas(t)
		time.Sleep(5 * time.Second) // nothing is on its way
		b := newReplica(t, server.WithStore(store.Store{Values: shared, Signals: slowToListen{shared}, Events: shared}))
		for _, srv := range []*server.Server{a, b} {
			server.AddStaticResource(srv, server.Resource{URI: "test://one", Name: "one"}, "x")
		}
		sub, err := servertest.Connect(t, b).Listen(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"test://one"}})
		require.NoError(t, err)
		a.ResourceUpdated("test://one")
		change, err := sub.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, "test://one", change.URI)
	})
}

// A replica that has seen a session before it listens to the others learns of a DELETE that it could not hear.
func TestDeleteBeforeAReplicaListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, shared := replicas(t)
		session := open(t, a)
		time.Sleep(5 * time.Second) // nothing is on its way
		b := newReplica(t, server.WithStore(store.Store{Values: shared, Signals: slowToListen{shared}, Events: shared}))
		require.Equal(t, 200, post(b, legacy(2, "ping", ""), session).Code)
		require.Equal(t, 204, send(a, http.MethodDelete, "", session).Code)
		require.Equal(t, 200, post(b, legacy(3, "ping", ""), session).Code, "nobody has told it")
		time.Sleep(5 * time.Second) // it listens, and has read what it has missed
		require.Equal(t, 404, post(b, legacy(4, "ping", ""), session).Code)
	})
}
