package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// A mutable replica hears and says nothing while it is mute.
type mutable struct {
	store.Signals
	mute atomic.Bool
}

func (m *mutable) Publish(ctx context.Context, channel string, message []byte) error {
	if m.mute.Load() {
		return nil
	}
	return m.Signals.Publish(ctx, channel, message)
}

func (m *mutable) Listen(ctx context.Context, channels []string, receive func(string, []byte), missed func()) error {
	return m.Signals.Listen(ctx, channels, func(channel string, message []byte) {
		if !m.mute.Load() {
			receive(channel, message)
		}
	}, missed)
}

// A talk is a call of a tool that says what it is told, and answers at the end.
type talk struct {
	says    chan string
	causes  chan error
	hangUp  context.CancelFunc
	read    []string // by its client
	session string
}

// talkAt begins a talk over a connection that hangUp breaks.
func talkAt(t *testing.T, srv *server.Server) *talk {
	t.Helper()
	k := &talk{says: make(chan string), causes: make(chan error, 1), session: openLatest(t, srv)}
	server.AddTool(srv, server.Tool{Name: "talk", Deadline: 1000 * time.Hour}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
		for said := 1.0; ; said++ {
			select {
			case text, more := <-k.says:
				if !more {
					return "the answer", nil
				}
				if err := call.Progress(said, 0, text); err != nil {
					return "", err
				}
			case <-ctx.Done():
				k.causes <- context.Cause(ctx)
				return "", ctx.Err()
			}
		}
	})
	out := k.reads(srv, legacy(7, "tools/call", `"name":"talk","arguments":{},"_meta":{"progressToken":"p"}`), "")
	k.says <- "first"
	k.expect(t, out, "first")
	return k
}

// reads begins an exchange, in place of the one before.
func (k *talk) reads(srv *server.Server, body, lastEvent string) *eventWriter {
	out := &eventWriter{header: http.Header{}, written: make(chan string, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	r := legacyRequest(body, k.session).WithContext(ctx)
	if body == "" {
		r.Method = http.MethodGet
		r.Header.Set("Last-Event-ID", lastEvent)
	}
	k.hangUp = cancel
	go func() {
		srv.Handler().ServeHTTP(out, r)
		close(out.written)
	}()
	synctest.Wait()
	return out
}

// resumes goes on reading after the client's last event.
func (k *talk) resumes(srv *server.Server) *eventWriter {
	return k.reads(srv, "", lastID(strings.Join(k.read, "")))
}

// expect expects the next events, one for each text.
func (k *talk) expect(t *testing.T, out *eventWriter, texts ...string) {
	t.Helper()
	for _, text := range texts {
		got, open := <-out.written
		require.True(t, open, "the exchange has ended before %s", text)
		require.Contains(t, got, text)
		k.read = append(k.read, got)
	}
}

// ends expects that the exchange ends without another event.
func (k *talk) ends(t *testing.T, out *eventWriter) {
	t.Helper()
	got, open := <-out.written
	require.False(t, open, got)
}

// A client that has lost its connection gets the rest of a stream from another replica while the handler runs,
// and nothing twice. It may lose that connection, too.
func TestStreamIsFollowedAtAnotherReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		k := talkAt(t, a)
		k.hangUp()
		synctest.Wait()
		k.says <- "missed"
		synctest.Wait()
		out := k.resumes(b)
		k.expect(t, out, "missed")
		for range 3 {
			begin := time.Now()
			k.says <- "live"
			k.expect(t, out, "live")
			require.Less(t, time.Since(begin), time.Second)
		}
		k.hangUp()
		k.ends(t, out)
		k.says <- "missed again"
		out = k.resumes(b)
		k.expect(t, out, "missed again")
		time.Sleep(5 * time.Minute)
		k.says <- "late"
		k.expect(t, out, "late")
		shared.used()
		time.Sleep(time.Minute)
		require.Less(t, shared.used(), 40, "a reader that waits asks the writer, and not the store")
		close(k.says)
		k.expect(t, out, "the answer")
		k.ends(t, out)
		synctest.Wait()
		require.Equal(t, accounts{stored: 1, fetched: 1}, accountsOf(a))
		require.Equal(t, accounts{}, accountsOf(b))
	})
}

// The latest reader of a stream gets it: another one at another replica ends, also one that has not noticed
// that its client has gone.
func TestLatestReaderOfAStreamGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, shared := replicas(t)
		c := newReplica(t, server.WithStore(shared.store()), server.WithTelemetry(recording(t)))
		defer c.Shutdown(context.Background())
		synctest.Wait()
		k := talkAt(t, a)
		gone := k.hangUp
		atB := k.resumes(b)
		atC := k.resumes(c)
		k.ends(t, atB)
		k.says <- "at C"
		k.expect(t, atC, "at C")
		atA := k.resumes(a)
		k.ends(t, atC)
		synctest.Wait()
		require.Equal(t, []string{"resumed replaced"}, endedStreams(t, c))
		k.says <- "at A"
		k.expect(t, atA, "at A")
		close(k.says)
		k.expect(t, atA, "the answer")
		k.ends(t, atA)
		gone()
	})
}

// endedStreams returns the kinds and the reasons of the streams that have ended, the newest first.
func endedStreams(t *testing.T, srv *server.Server) (all []string) {
	for _, ended := range requestsPage(t, srv).EndedStreams {
		all = append(all, ended.Kind+" "+ended.Reason)
	}
	return all
}

// A reader at another replica ends rather than go on with a gap: what it has not heard of was pushed out of the store.
func TestReaderOfAStreamWithAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedMemory{}
		few := server.WithLimits(server.Limits{MaxEvents: 3})
		a := newReplica(t, server.WithStore(shared.store()), few)
		b := newReplica(t, server.WithStore(shared.store()), few, server.WithTelemetry(recording(t)))
		defer a.Shutdown(context.Background())
		defer b.Shutdown(context.Background())
		synctest.Wait()
		k := talkAt(t, a)
		k.hangUp()
		atB := k.resumes(b)
		shared.drop(true)
		for range 6 {
			k.says <- "pushed out"
			synctest.Wait()
		}
		shared.drop(false)
		k.ends(t, atB)
		synctest.Wait()
		require.Equal(t, []string{"resumed error"}, endedStreams(t, b))
		close(k.says)
	})
}

// An unhurried log has what is appended at once, and says so later.
type unhurried struct {
	store.EventLog
	delay time.Duration
}

func (u unhurried) Append(ctx context.Context, session string, e store.Event, b store.EventBounds) ([]store.EvictedEvent, error) {
	evicted, err := u.EventLog.Append(ctx, session, e, b)
	time.Sleep(u.delay)
	return evicted, err
}

// A reader at another replica may have an event before its writer knows that the store has it. The client goes on
// after that event at the writer's replica.
func TestReaderIsAheadOfTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedMemory{}
		a := newReplica(t, server.WithStore(store.Store{Values: shared, Signals: shared, Events: unhurried{shared, 100 * time.Millisecond}}))
		b := newReplica(t, server.WithStore(shared.store()))
		defer a.Shutdown(context.Background())
		defer b.Shutdown(context.Background())
		synctest.Wait()
		k := talkAt(t, a)
		k.hangUp()
		atB := k.resumes(b)
		k.says <- "known"
		k.says <- "ahead"
		k.expect(t, atB, "known", "ahead")
		k.hangUp()
		k.ends(t, atB)
		atA := k.resumes(a)
		k.says <- "later"
		k.expect(t, atA, "later")
		close(k.says)
		k.expect(t, atA, "the answer")
		k.ends(t, atA)
	})
}

// A client that reads the session's own stream at another replica gets each change, also one that it had before.
func TestOwnStreamIsFollowedAtAnotherReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		for _, srv := range []*server.Server{a, b} {
			server.AddStaticResource(srv, server.Resource{URI: "test://one", Name: "one"}, "x")
		}
		k := &talk{session: openLatest(t, a)}
		require.Equal(t, 200, post(a, legacy(5, "resources/subscribe", `"uri":"test://one"`), k.session).Code)
		updated := func(out *eventWriter) {
			t.Helper()
			a.ResourceUpdated("test://one")
			for got := range out.written {
				if k.read = append(k.read, got); strings.Contains(got, "test://one") {
					return
				}
			}
			t.Fatal("the exchange has ended before the update")
		}
		updated(k.reads(a, "", ""))
		k.hangUp()
		out := k.resumes(b)
		for range 3 {
			synctest.Wait()
			updated(out)
		}
		k.hangUp()
		synctest.Wait()
	})
}

// A request goes on while its client reads at another replica. When that client has gone, too, the grace for
// orphans begins.
func TestReaderAtAnotherReplicaKeepsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := replicas(t, server.WithLimits(server.Limits{OrphanGrace: time.Minute}))
		synctest.Wait()
		k := talkAt(t, a)
		k.hangUp()
		time.Sleep(50 * time.Second)
		out := k.resumes(b)
		time.Sleep(time.Minute)
		require.Empty(t, k.causes)
		k.says <- "still here"
		k.expect(t, out, "still here")
		k.hangUp()
		time.Sleep(59 * time.Second)
		require.Empty(t, k.causes)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, <-k.causes, mcp.ErrClientDisconnected)
	})
}

// A reader whose replica has died does not tell that it has left. The request then has the grace after the
// lease of the reader.
func TestReaderAtADeadReplicaKeepsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedMemory{}
		signals := &mutable{Signals: shared}
		limits := server.WithLimits(server.Limits{OrphanGrace: time.Minute})
		a := newReplica(t, server.WithStore(shared.store()), limits)
		b := newReplica(t, server.WithStore(store.Store{Values: shared, Signals: signals, Events: shared}))
		defer a.Shutdown(context.Background())
		defer b.Shutdown(context.Background())
		synctest.Wait()
		k := talkAt(t, a)
		k.hangUp()
		out := k.resumes(b)
		signals.mute.Store(true)
		time.Sleep(59 * time.Second)
		require.Empty(t, k.causes)
		time.Sleep(22 * time.Second)
		require.ErrorIs(t, <-k.causes, mcp.ErrClientDisconnected)
		k.expect(t, out, "replica_lost")
	})
}

// A client that resumes a stream of a dead replica gets an error for its request. If that replica was only slow,
// what it appends is refused, and counted.
func TestStreamOfADeadReplicaEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, logs := recording(t), &logRecorder{}
		shared := &sharedMemory{}
		signals := &mutable{Signals: shared}
		a := newReplica(t, server.WithStore(store.Store{Values: shared, Signals: signals, Events: shared}),
			server.WithTelemetry(tel), server.WithLimits(server.Limits{OrphanGrace: time.Hour}))
		b := newReplica(t, server.WithStore(shared.store()), server.WithLogger(slog.New(logs)))
		defer a.Shutdown(context.Background())
		defer b.Shutdown(context.Background())
		synctest.Wait()
		k := talkAt(t, a)
		k.hangUp()
		synctest.Wait()
		signals.mute.Store(true)
		begin := time.Now()
		out := k.resumes(b)
		k.expect(t, out, `"id":7,"error":{"code":-32603,"message":"the server that ran this request is gone","data":{"reason":"replica_lost"}}`)
		k.ends(t, out)
		require.InDelta(t, 30, time.Since(begin).Seconds(), 8)
		require.Contains(t, resumeAt(b, k.session, lastID(k.read[0])).Body.String(), "replica_lost", "it is in the store")
		lost := logs.find("stream.replica_lost")
		require.Len(t, lost, 1)
		require.NotEmpty(t, lost[0].attrs["client"])

		close(k.says)
		synctest.Wait()
		require.True(t, strings.Contains(scrape(t, tel), "vitrine_events_fenced_total 1"))
		require.Equal(t, accounts{}, accountsOf(a))
	})
}

// A signal that is lost delays an event, and no more.
func TestLostSignalDelaysAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedMemory{}
		signals := &mutable{Signals: shared}
		a := newReplica(t, server.WithStore(store.Store{Values: shared, Signals: signals, Events: shared}))
		b := newReplica(t, server.WithStore(shared.store()))
		defer a.Shutdown(context.Background())
		defer b.Shutdown(context.Background())
		synctest.Wait()
		k := talkAt(t, a)
		k.hangUp()
		out := k.resumes(b)
		signals.mute.Store(true)
		begin := time.Now()
		k.says <- "unheard"
		k.expect(t, out, "unheard")
		require.InDelta(t, 8, time.Since(begin).Seconds(), 8)
		signals.mute.Store(false)
		k.says <- "heard"
		k.expect(t, out, "heard")
	})
}

// A reader waits while the store is away, and goes on when it is back. The stream of a writer that could not
// append ends then, and is unknown to a client that comes back.
func TestStreamIsFollowedWhileTheStoreIsAway(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		k := talkAt(t, a)
		k.hangUp()
		out := k.resumes(b)
		shared.fail(errors.New("down"))
		time.Sleep(15 * time.Second)
		shared.fail(nil)
		time.Sleep(time.Minute)
		k.says <- "back"
		k.expect(t, out, "back")
		shared.fail(errors.New("down"))
		close(k.says)
		time.Sleep(time.Minute)
		shared.fail(nil)
		if end, open := <-out.written; open { // the writer was away for longer than its reader
			require.Contains(t, end, "replica_lost")
			return
		}
		require.Equal(t, 400, resumeAt(b, k.session, lastID(k.read[1])).Code)
	})
}

// A replica that shuts down ends the streams of others that it reads. Their clients go on elsewhere.
func TestReaderOfAnotherReplicaEndsWithTheDrain(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		other := talkAt(t, b) // which keeps b from its end
		k := talkAt(t, a)
		k.hangUp()
		out := k.resumes(b)
		begin := time.Now()
		go func() { _ = b.Shutdown(context.Background()) }()
		k.ends(t, out)
		require.Zero(t, time.Since(begin))
		close(other.says)
		k.says <- "meanwhile"
		out = k.resumes(a)
		k.expect(t, out, "meanwhile")
	})
}
