package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// openLatest begins a session of a client that can resume streams, and returns its header.
func openLatest(t *testing.T, srv *server.Server) string {
	t.Helper()
	w := post(srv, legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
	require.Equal(t, 200, w.Code, w.Body)
	session := "Mcp-Session-Id: " + w.Header().Get("Mcp-Session-Id")
	require.Equal(t, 202, post(srv, notice("notifications/initialized", ""), session).Code)
	return session
}

// resumeAt goes on reading a stream after an event, until that ends.
func resumeAt(srv *server.Server, session, lastEvent string) *httptest.ResponseRecorder {
	return send(srv, http.MethodGet, "", session, "Last-Event-ID: "+lastEvent)
}

// leaves adds a tool that closes its stream, so that its answer goes to the store when the returned channel is
// closed.
func leaves(srv *server.Server) (answer chan struct{}) {
	answer = make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "leave"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		if err := call.CloseStream(time.Second); err != nil {
			return "", err
		}
		<-answer
		return "the answer", nil
	})
	return answer
}

const callLeave = `"name":"leave","arguments":{}`

// leaveAt calls the tool, and returns the last event that the client has when the answer is in the store.
func leaveAt(t *testing.T, srv *server.Server, session string) (lastEvent string) {
	t.Helper()
	answer := leaves(srv)
	lastEvent = lastID(post(srv, legacy(7, "tools/call", callLeave), session).Body.String())
	require.NotEmpty(t, lastEvent)
	close(answer)
	synctest.Wait()
	return lastEvent
}

// An accounts is what a server has counted of stored answers.
type accounts struct{ stored, fetched, left, waiting int }

func accountsOf(srv *server.Server) (a accounts) {
	snap := srv.Core().Snapshot()
	_, _, stored, _ := snap.Counters.Totals()
	a.stored, a.fetched = int(stored), int(snap.Counters.ResponsesFetched) //nolint:gosec // small
	a.left = int(snap.Counters.ResponsesExpired[mcp.ExpireLeftInStore])    //nolint:gosec // small
	for i := range snap.Sessions {
		a.waiting += snap.Sessions[i].Stored
	}
	return a
}

// An answer that one replica has stored can be fetched from another one, and counts where it was stored. The
// client of another session cannot fetch it.
func TestStoredAnswerIsFetchedFromAnotherReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		session := openLatest(t, a)
		last := leaveAt(t, a, session)
		require.Equal(t, accounts{stored: 1, waiting: 1}, accountsOf(a))
		require.Equal(t, 400, resumeAt(b, openLatest(t, b), last).Code)
		body := resumeAt(b, session, last).Body.String()
		require.Contains(t, body, "the answer")
		synctest.Wait()
		require.Equal(t, accounts{stored: 1, fetched: 1}, accountsOf(a))
		require.Equal(t, accounts{}, accountsOf(b))
		require.Equal(t, 400, resumeAt(b, session, lastID(body)).Code, "nothing follows")
		for _, unknown := range []string{last + "9", last[:11] + "otherone.1-1", last[:11] + "1-1", last[:11] + "x-1"} {
			require.Equal(t, 400, resumeAt(b, session, unknown).Code, unknown)
		}
		require.Contains(t, resumeAt(a, session, last).Body.String(), "the answer", "it may be read again")
		require.Equal(t, accounts{stored: 1, fetched: 1}, accountsOf(a))
	})
}

// A stored answer that another replica replays counts as fetched also if the one that has stored it has just lost its
// connection to the store.
func TestFetchedAnswerIsCountedAfterAShortOutage(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		session := openLatest(t, a)
		last := leaveAt(t, a, session)
		shared.refusePublish(store.ErrNoReceiver)
		require.Contains(t, resumeAt(b, session, last).Body.String(), "the answer")
		time.Sleep(5 * time.Second)
		require.Equal(t, accounts{stored: 1, waiting: 1}, accountsOf(a))
		shared.refusePublish(nil)
		time.Sleep(5 * time.Second)
		require.Equal(t, accounts{stored: 1, fetched: 1}, accountsOf(a))
	})
}

// An answer outlives the replica that has stored it, and the object that this has of the session.
func TestStoredAnswerOutlivesItsReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, _ *sharedMemory) {
		session := openLatest(t, a)
		last := leaveAt(t, a, session)
		require.NoError(t, a.Shutdown(context.Background()))
		require.Equal(t, accounts{stored: 1, left: 1}, accountsOf(a))
		require.Contains(t, resumeAt(b, session, last).Body.String(), "the answer")
		require.Equal(t, accounts{}, accountsOf(b))
	})
}

// The end of a session deletes its events everywhere.
func TestStoredAnswerEndsWithItsSession(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		session := openLatest(t, a)
		leaveAt(t, a, session)
		require.Equal(t, 204, send(b, http.MethodDelete, "", session).Code)
		synctest.Wait()
		require.Zero(t, shared.Events())
		require.EqualValues(t, 1, a.Core().Snapshot().Counters.ResponsesExpired[mcp.ExpireSessionEnded])
	})
}

// So does it where the replica that has stored them is gone.
func TestStoredAnswerOfALostReplicaEndsWithItsSession(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		session := openLatest(t, a)
		leaveAt(t, a, session)
		require.NoError(t, a.Shutdown(context.Background()))
		require.NotZero(t, shared.Events())
		require.Equal(t, 204, send(b, http.MethodDelete, "", session).Code)
		synctest.Wait()
		require.Zero(t, shared.Events())
	})
}

// What the store has lost is unknown, and while it is away a client is asked to come later. An answer whose
// stream is with the client goes on without the store.
func TestStoredAnswerOfAStoreThatFails(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		addReporter(a)
		session := openLatest(t, a)
		last := leaveAt(t, a, session)
		require.Equal(t, 200, post(b, legacy(2, "tools/call", callPeer), session).Code)
		shared.fail(errors.New("down"))
		res := resumeAt(b, session, last)
		require.Equal(t, 429, res.Code)
		require.Equal(t, "1", res.Header().Get("Retry-After"))
		body := post(a, legacy(8, "tools/call", callReporter(3)), session).Body.String()
		require.Contains(t, body, "reported 3")
		require.NotContains(t, body, "id: ")
		shared.fail(nil)
		require.Contains(t, resumeAt(b, session, last).Body.String(), "the answer")
		shared.lose()
		require.Equal(t, 400, resumeAt(b, session, last).Code)
	})
}

// The store has an event although its replica has heard that it failed. The client gets it once, wherever it goes on.
func TestEventThatIsStoredWithoutAnAnswer(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		addReporter(a)
		session := openLatest(t, a)
		events := 0
		shared.appended = func() error {
			if events++; events == 3 { // the first one has no data
				return context.DeadlineExceeded
			}
			return nil
		}
		body := post(a, legacy(8, "tools/call", callReporter(3)), session).Body.String()
		require.Equal(t, 3, events, "the log ends there")
		const second, third = `"progress":1,`, `"progress":2,`
		read, _, _ := strings.Cut(body, third) // the rest is lost on its way
		require.Contains(t, read, second)
		shared.drop(true) // its replica says too late that the stream cannot be resumed
		require.NotContains(t, resumeAt(b, session, lastID(read)).Body.String(), second)
	})
}

// addReporter adds a tool that reports progress as often as it is told.
func addReporter(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "report"}, func(_ context.Context, call *server.Call, in struct{ Times int }) (string, error) {
		for i := range in.Times {
			if err := call.Progress(float64(i), float64(in.Times), ""); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("reported %d", in.Times), nil
	})
}

func callReporter(times int) string {
	return fmt.Sprintf(`"name":"report","arguments":{"Times":%d},"_meta":{"progressToken":"p"}`, times)
}

// A call that is answered at once uses no store. A stream of events has one operation for each event, and one
// for the event with which it begins.
func TestStoreOperationsOfACall(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, _ *server.Server, shared *sharedMemory) {
		addReporter(a)
		session := openLatest(t, a)
		for times, want := range []int{0, 3, 4} {
			synctest.Wait() // what came before has its operations behind it
			shared.used()
			require.Contains(t, post(a, legacy(2+times, "tools/call", callReporter(times)), session).Body.String(), "reported")
			require.Equal(t, want, shared.used(), "%d reports", times)
		}
	})
}

// The limits of events hold for a session at all replicas, and are counted where they delete events.
func TestStoredEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, shared := replicas(t, server.WithLimits(server.Limits{MaxEvents: 3}))
		session := openLatest(t, a)
		last := leaveAt(t, a, session)
		require.Equal(t, 3, shared.Events())
		addReporter(b)
		post(b, legacy(8, "tools/call", callReporter(1)), session)
		require.Equal(t, 3, shared.Events())
		require.Equal(t, 400, resumeAt(b, session, last).Code)
		require.EqualValues(t, 3, b.Core().Snapshot().Counters.LimitsReached["max_events"])
	})
}

// A writer whose events the store has lost is refused, and that is counted. Its stream goes on, and cannot be
// resumed any more.
func TestStreamWhoseEventsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, logs := recording(t), &logRecorder{}
		a, b, shared := replicas(t, server.WithTelemetry(tel), server.WithLogger(slog.New(logs)))
		synctest.Wait()
		proceed := make(chan struct{})
		server.AddTool(a, server.Tool{Name: "pause"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			err := call.Progress(1, 2, "")
			<-proceed
			return "the answer", err
		})
		session := openLatest(t, a)
		out := &eventWriter{header: http.Header{}, written: make(chan string, 10)}
		go a.Handler().ServeHTTP(out, legacyRequest(legacy(7, "tools/call", `"name":"pause","_meta":{"progressToken":"p"}`), session))
		first := <-out.written
		require.Contains(t, first, "id: ")
		shared.lose()
		close(proceed)
		answer := <-out.written
		require.Contains(t, answer, "the answer")
		require.NotContains(t, answer, "id: ")
		require.Equal(t, 400, resumeAt(b, session, lastID(first)).Code)
		require.Contains(t, scrape(t, tel), "vitrine_events_fenced_total 1")
		fenced := logs.find("events.fenced")
		require.Len(t, fenced, 1)
		require.NotEmpty(t, fenced[0].attrs["session"])
		require.Equal(t, "c", fenced[0].attrs["client"])
		require.NotEmpty(t, fenced[0].attrs["stream"])
	})
}

// A lossy log can lose the last events of a stream, as in a failover to a server that has not got them yet.
type lossy struct {
	store.EventLog
	shared          *sharedMemory // which it is a part of
	session, stream string        // of the last event
	bounds          store.EventBounds
}

func (l *lossy) Append(ctx context.Context, session string, e store.Event, b store.EventBounds) ([]store.EvictedEvent, error) {
	l.session, l.stream, l.bounds = session, e.Stream, b
	return l.EventLog.Append(ctx, session, e, b)
}

// loseLast loses the last n events. Their stream must be the only one of its session.
func (l *lossy) loseLast(t *testing.T, n int) {
	t.Helper()
	all, err := l.After(t.Context(), l.session, l.stream, 0)
	require.NoError(t, err)
	require.Greater(t, len(all), n)
	require.NoError(t, l.Delete(t.Context(), l.session))
	for _, e := range all[:len(all)-n] {
		_, err := l.EventLog.Append(t.Context(), l.session, e, l.bounds)
		require.NoError(t, err)
	}
}

// lossyReplicas returns two servers with a store whose log can lose events, and the signals of the first one, which has
// more options.
func lossyReplicas(t *testing.T, opts ...server.Option) (a, b *server.Server, log *lossy, signals *mutable) {
	t.Helper()
	shared := &sharedMemory{}
	log, signals = &lossy{EventLog: shared, shared: shared}, &mutable{Signals: shared}
	a = newReplica(t, append(opts, server.WithStore(store.Store{Values: shared, Signals: signals, Events: log}))...)
	b = newReplica(t, server.WithStore(store.Store{Values: shared, Signals: shared, Events: log}))
	for _, srv := range []*server.Server{a, b} {
		t.Cleanup(func() { _ = srv.Shutdown(context.Background()) })
	}
	synctest.Wait()
	return a, b, log, signals
}

// talkThatIsLost returns a talk whose client has read three texts at the writer's replica, and has hung up. The store
// has lost all but the first one.
func talkThatIsLost(t *testing.T, a *server.Server, log *lossy) *talk {
	t.Helper()
	k := talkAt(t, a)
	k.hangUp()
	synctest.Wait()
	out := k.resumes(a)
	for _, text := range []string{"second", "third"} {
		k.says <- text
		k.expect(t, out, text)
	}
	k.hangUp()
	synctest.Wait()
	log.loseLast(t, 2)
	return k
}

// A store that has lost the last events of a stream, and not the earlier ones, skips none: at another replica a client
// cannot go on after an event that is lost, and one that goes on after an earlier event gets nothing that comes later.
func TestStreamWhoseLastEventsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := recording(t)
		a, b, log, _ := lossyReplicas(t, server.WithTelemetry(tel))
		k := talkThatIsLost(t, a, log)
		first, second, third := lastID(k.read[0]), lastID(k.read[1]), lastID(k.read[2])
		require.Equal(t, 400, resumeAt(b, k.session, third).Code)
		require.Equal(t, 400, resumeAt(b, k.session, second).Code)
		out := k.reads(b, "", first)
		k.says <- "fourth"
		for got := range out.written {
			require.NotContains(t, got, "data: {")
		}
		synctest.Wait()
		require.Contains(t, scrape(t, tel), "vitrine_events_fenced_total 1")
		for _, event := range []string{first, second, third} {
			require.Equal(t, 400, resumeAt(b, k.session, event).Code)
		}
		close(k.says)
	})
}

// A reader that ends the stream of a dead replica gives that end the number of an event which the store has lost. A
// client that has had that event does not go on there, as if it had read the end.
func TestLostEventIsReplacedForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, log, signals := lossyReplicas(t)
		k := talkThatIsLost(t, a, log)
		first, second, third := lastID(k.read[0]), lastID(k.read[1]), lastID(k.read[2])
		signals.mute.Store(true)
		rest := resumeAt(b, k.session, first).Body.String()
		require.Contains(t, rest, "replica_lost")
		require.Equal(t, second, lastID(rest))
		require.Equal(t, 400, resumeAt(b, k.session, second).Code)
		require.Equal(t, 400, resumeAt(b, k.session, third).Code)
		close(k.says)
	})
}

// A reader at another replica does not wait for an event that the store has lost: its client hears at once that the
// stream cannot be resumed there, when it comes, and when the store loses what the client is about to read.
func TestReaderDoesNotWaitForLostEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, log, _ := lossyReplicas(t)
		k := talkThatIsLost(t, a, log)
		begin := time.Now()
		require.Equal(t, 400, resumeAt(b, k.session, lastID(k.read[0])).Code)
		require.Less(t, time.Since(begin), time.Second)
		close(k.says)
	})
	synctest.Test(t, func(t *testing.T) {
		a, b, log, _ := lossyReplicas(t)
		k := talkAt(t, a)
		k.hangUp()
		synctest.Wait()
		out := k.resumes(b)
		log.shared.appended = func() error {
			log.shared.appended = nil
			log.loseLast(t, 1)
			return nil
		}
		k.says <- "lost"
		begin := time.Now()
		k.ends(t, out)
		require.Less(t, time.Since(begin), time.Second)
		close(k.says)
	})
}

// A reader whose last events the store has lost, and whose writer is dead, ends when it has found that out. It cannot
// end the stream in the store, which has another end.
func TestReaderOfADeadReplicaWhoseEventsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, log, signals := lossyReplicas(t)
		k := talkAt(t, a)
		k.hangUp()
		synctest.Wait()
		out := k.resumes(b)
		k.says <- "second"
		k.expect(t, out, "second")
		signals.mute.Store(true)
		log.loseLast(t, 1)
		begin := time.Now()
		k.ends(t, out)
		require.InDelta(t, 35, time.Since(begin).Seconds(), 8, "seven looks of four to six seconds")
		require.Equal(t, 400, resumeAt(b, k.session, lastID(k.read[1])).Code)
		close(k.says)
	})
}
