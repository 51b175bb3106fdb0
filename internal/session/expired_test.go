package session

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An expiryObserver notes what it is told of lost answers.
type expiryObserver struct {
	NopObserver
	told []string
}

func (o *expiryObserver) AnswerExpired(a *ExpiredAnswer, p *auth.Principal) {
	o.told = append(o.told, fmt.Sprintln(a.Reason, a.Target, a.Client, a.ClientVersion, p))
}

// The observer is told whose answer was lost and why, but not of one that another replica may replay.
func TestObserverIsToldOfLostAnswers(t *testing.T) {
	o := &expiryObserver{}
	core := New(Config{Observer: o})
	s := core.Connect(&Conn{}, nil)
	s.Initialize(&Peer{Version: mcp.Version20251125, Client: mcp.Implementation{Name: "desk", Version: "4.3.0"}})
	answer := &storedAnswer{
		ctx: t.Context(), session: s, series: &Series{Method: mcp.MethodToolsCall, Target: "refund"},
		principal: &auth.Principal{Subject: "ada"}, storedAt: time.Now(),
	}
	for _, reason := range mcp.ExpireReasons() {
		core.answersExpired(reason, []any{answer})
	}
	want := slices.DeleteFunc(mcp.ExpireReasons(), func(r mcp.ExpireReason) bool { return r == mcp.ExpireLeftInStore })
	require.Len(t, o.told, len(want))
	for i, reason := range want {
		require.Equal(t, fmt.Sprintln(reason, "refund desk 4.3.0 ada"), o.told[i])
	}
}

// rememberByDefault gives the world the event store that servers have by default. It must be
// called first.
func (w *world) rememberByDefault() {
	w.core = New(Config{Dispatcher: w, Logger: slog.New(w.log), Limits: w.core.limits, Events: resume.NewMemory()})
}

// stored has the answer to a call stored, because its client is gone. It returns the exchange.
func (w *world) stored(s *Session, g *gate, id, answer string) *exchange {
	w.t.Helper()
	h, x := w.streaming(s, g, id)
	x.vanish()
	h.finish(answer)
	w.settle()
	return x
}

func (w *world) expired() map[mcp.ExpireReason]uint64 {
	w.settle()
	return w.core.Snapshot().Counters.ResponsesExpired
}

// unread returns how many stored answers may still be fetched.
func (w *world) unread() (n int) {
	for _, s := range w.core.Snapshot().Sessions {
		n += s.Stored
	}
	return n
}

// The event store deletes an answer before its client comes for it. At this moment the answer is
// lost, and the log says whose it was.
func TestEvictedAnswersExpire(t *testing.T) {
	for _, tt := range []struct {
		reason mcp.ExpireReason
		limits limits.Limits
		evict  func(w *world, g *gate, own, other *Session)
	}{
		// A stream has an event for a notification and one for the answer.
		{mcp.ExpireMaxEvents, limits.Limits{MaxEvents: 2}, func(w *world, g *gate, own, _ *Session) {
			w.stored(own, g, "2", "later")
		}},
		{mcp.ExpireMaxEventBytes, limits.Limits{MaxEventBytes: 1500}, func(w *world, g *gate, own, _ *Session) {
			w.stored(own, g, "2", strings.Repeat("x", 900))
		}},
		{mcp.ExpireMaxEventBytesTotal, limits.Limits{MaxEventBytesTotal: 2000, MaxEventBytes: 2000}, func(w *world, g *gate, _, other *Session) {
			w.stored(other, g, "1", strings.Repeat("x", 1200))
		}},
	} {
		t.Run(string(tt.reason), func(t *testing.T) {
			inWorld(t, tt.limits, func(w *world) {
				w.rememberByDefault()
				g, own, other := w.gate("work", false), w.open("own"), w.open("other")
				own.Initialize(&Peer{Version: mcp.Version20251125, Client: mcp.Implementation{Name: "desk", Version: "4.3.0"}})
				x := w.stored(own, g, "1", "lost")
				require.Equal(w.t, 1, w.unread())
				require.Empty(w.t, w.expired())
				w.loggedWith("DEBUG response.stored", "id=1", "target=work", "session="+own.LogID(), "client=desk",
					"client_version=4.3.0", "event="+x.last()[:10])
				tt.evict(w, g, own, other)
				require.Equal(w.t, map[mcp.ExpireReason]uint64{tt.reason: 1}, w.expired())
				require.Equal(w.t, 1, w.unread())
				w.loggedWith("WARN response.expired", "reason="+string(tt.reason), "id=1", "target=work", "session="+own.LogID(),
					"client=desk", "client_version=4.3.0")
				w.refused(own, x.last(), resume.ErrEventUnknown)
			})
		})
	}
}

// Many answers that are lost at once are named one by one: in the list all of them, in the log as many as
// it may have in a second, and how many more there were.
func TestEachLostAnswerIsNamed(t *testing.T) {
	inWorld(t, limits.Limits{MaxEventBytes: 40_000}, func(w *world) {
		w.rememberByDefault()
		g, own := w.gate("work", false), w.open("own")
		own.Initialize(&Peer{Version: mcp.Version20251125, Client: mcp.Implementation{Name: "desk", Version: "4.3.0"}})
		for i := range 40 {
			w.stored(own, g, fmt.Sprint(i+1), "lost")
		}
		require.Equal(w.t, 40, w.unread())
		w.stored(own, g, "41", strings.Repeat("x", 39_000))
		lost := w.core.Snapshot().Expired
		require.EqualValues(w.t, len(lost), w.expired()[mcp.ExpireMaxEventBytes])
		require.Equal(w.t, 40, len(lost))
		for i, a := range lost {
			require.Equal(w.t, fmt.Sprint(i+1), a.ID)
			require.Equal(w.t, []string{"work", own.LogID(), "desk", "4.3.0"}, []string{a.Target, a.Session, a.Client, a.ClientVersion})
		}
		require.Equal(w.t, maxStoredLines, w.times("WARN response.expired"))
		time.Sleep(time.Second)
		w.stored(own, g, "42", strings.Repeat("x", 39_000))
		w.loggedWith("WARN response.expired", "id=41", fmt.Sprint("silenced=", 40-maxStoredLines))
	})
}

// A session that loses many answers does not hide those that another one has lost, and a caller with many
// sessions does not hide those of another caller.
func TestListOfLostAnswersIsShared(t *testing.T) {
	type row struct{ client, version, principal, session string }
	type lost struct {
		lost []row // in this order
		want map[row]int
	}
	sessionsOf := func(many, one row) lost {
		c := lost{lost: []row{one, one}, want: map[row]int{one: 2}} // of one session, so that it has more than each of the others
		for i := range 2 * maxExpiredListed {
			many.session = fmt.Sprint("many", i)
			c.lost = append(c.lost, many)
		}
		return c
	}
	for name, tt := range map[string]lost{
		"one session": {
			lost: slices.Concat(slices.Repeat([]row{{session: "small"}}, 2), slices.Repeat([]row{{session: "large"}}, 2*maxExpiredListed), []row{{session: "other"}}),
			want: map[row]int{{session: "small"}: 2, {session: "large"}: maxExpiredListed - 3, {session: "other"}: 1},
		},
		"many sessions of a principal": sessionsOf(row{principal: "many"}, row{principal: "one", session: "s"}),
		"many sessions of a client":    sessionsOf(row{client: "many"}, row{client: "one", session: "s"}),
		"many sessions of a version":   sessionsOf(row{client: "desk", version: "2"}, row{client: "desk", version: "1", session: "s"}),
		"among the sessions of a caller": {
			lost: slices.Concat([]row{{"desk", "1", "ann", "small"}}, slices.Repeat([]row{{"desk", "1", "ann", "large"}}, 2*maxExpiredListed)),
			want: map[row]int{{"desk", "1", "ann", "small"}: 1, {"desk", "1", "ann", "large"}: maxExpiredListed - 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var e expiredAnswers
			for i, r := range tt.lost {
				e.add(&ExpiredAnswer{Client: r.client, ClientVersion: r.version, Principal: r.principal, Session: r.session, ID: fmt.Sprint(i)})
			}
			counts, before := map[row]int{}, -1
			for _, a := range e.all() {
				counts[row{a.Client, a.ClientVersion, a.Principal, a.Session}]++
				id, err := strconv.Atoi(a.ID)
				require.NoError(t, err)
				require.Greater(t, id, before, "oldest first")
				before = id
			}
			for r, n := range tt.want {
				require.Equal(t, n, counts[r], r)
			}
			require.Len(t, e.all(), maxExpiredListed)
		})
	}
}

// The answer is still in the store, but an event before it is not, which its client has not had: it
// cannot come for the answer any more. If the client may have had that event, it still can.
func TestAnswersBehindAGapExpire(t *testing.T) {
	for _, had := range []bool{true, false} {
		t.Run(fmt.Sprint("had ", had), func(t *testing.T) {
			inWorld(t, limits.Limits{MaxEvents: 4}, func(w *world) {
				w.rememberByDefault()
				g, s := w.gate("work", false), w.open("session")
				h, x := w.streaming(s, g, "1") // a mark, and a notification
				if had {
					h.note(2)
					w.settle()
				}
				x.vanish()
				if !had {
					h.note(2)
				}
				h.finish("answer")
				w.settle()
				later, y := w.streaming(s, g, "2") // three events, for which those of the first stream leave the store
				later.finish("sent")
				require.True(w.t, y.ended())
				if had {
					require.Empty(w.t, w.expired())
					return
				}
				require.Equal(w.t, map[mcp.ExpireReason]uint64{mcp.ExpireMaxEvents: 1}, w.expired())
			})
		})
	}
}

// A client that comes for an answer ends the wait, and so does one that says it has the answer: the
// kernel had it when the connection broke.
func TestFetchedAnswersDoNotExpire(t *testing.T) {
	inWorld(t, limits.Limits{SessionIdle: time.Minute}, func(w *world) {
		w.rememberByDefault()
		g, s := w.gate("work", false), w.open("session")
		x, y := w.stored(s, g, "1", "one"), w.stored(s, g, "2", "two")
		require.Equal(w.t, 2, w.unread())
		require.Len(w.t, w.resumed(s, x.last()), 2)
		require.Equal(w.t, 1, w.unread())
		answer := strings.TrimSuffix(y.last(), "2") + "3"
		w.refused(s, answer, resume.ErrEventUnknown)
		require.Zero(w.t, w.unread())
		time.Sleep(2 * time.Minute)
		require.Empty(w.t, w.expired())
		require.EqualValues(w.t, 2, w.core.Snapshot().Counters.ResponsesFetched)
	})
}

// Answers end with their session. If the client has left it, that is in the usual course of things, and no
// warning.
func TestAnswersExpireWithTheirSession(t *testing.T) {
	for reason, end := range map[mcp.ExpireReason]func(s *Session){
		mcp.ExpireSessionIdle:    func(*Session) { time.Sleep(2 * time.Minute) },
		mcp.ExpireSessionEnded:   func(s *Session) { s.Close(mcp.CauseSessionDelete) },
		mcp.ExpireSessionEvicted: func(s *Session) { s.Close(mcp.CauseSessionEvicted) },
	} {
		t.Run(string(reason), func(t *testing.T) {
			inWorld(t, limits.Limits{SessionIdle: time.Minute}, func(w *world) {
				w.rememberByDefault()
				g, s := w.gate("work", false), w.open("session")
				w.stored(s, g, "1", "one")
				end(s)
				require.Equal(w.t, map[mcp.ExpireReason]uint64{reason: 1}, w.expired())
				level, other := "INFO", "WARN"
				if reason == mcp.ExpireSessionEvicted {
					level, other = other, level
				}
				w.loggedWith(level+" response.expired", "reason="+string(reason), "id=1")
				require.Zero(w.t, w.times(other+" response.expired"))
			})
		})
	}
}

// Another event store does not say what it deletes. The refused resumption tells.
func TestAnswersThatAnotherStoreHasDeletedExpire(t *testing.T) {
	inWorld(t, limits.Limits{MaxEvents: 2}, func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		x := w.stored(s, g, "1", "one")
		y, other := w.streaming(s, g, "2")
		y.finish("sent")
		require.True(w.t, other.ended())
		require.Empty(w.t, w.expired())
		w.refused(s, x.last(), resume.ErrEventUnknown)
		require.Equal(w.t, map[mcp.ExpireReason]uint64{mcp.ExpireStore: 1}, w.expired())
	})
}

// The stream has a stored answer already when its next event cannot be stored. Without an end it
// cannot be resumed.
func TestAnswersOfStreamsThatFailExpire(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.openBatching("session")
		x, _ := w.postBatch(s, true, callFrame("1", "work"), callFrame("2", "work"))
		one, two := g.next(), g.next()
		one.note(1)
		w.settle()
		x.vanish()
		one.finish("one")
		w.settle()
		require.Equal(w.t, 1, w.unread())
		store.on(resume.OpAppend, func() error { return errStore })
		two.finish("two")
		require.Equal(w.t, map[mcp.ExpireReason]uint64{mcp.ExpireStreamEnded: 1}, w.expired())
	})
}
