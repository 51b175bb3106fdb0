package session

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An ExpiredAnswer describes a stored answer that no client can fetch any more. Texts of the client are
// fit to print.
type ExpiredAnswer struct {
	Context                                   context.Context // with the span of its request, see [Observer.Stored]
	Method, Target, ID                        string
	Session, Client, ClientVersion, Principal string
	Reason                                    mcp.ExpireReason
	StoredAt, ExpiredAt                       time.Time
}

// A storedAnswer is an answer that is in the event store. It does not keep the request, because a client has
// long to come for its answer.
type storedAnswer struct {
	ctx       context.Context // with the span, see [Observer.Stored]
	session   *Session
	series    *Series
	id        string
	principal *auth.Principal // may be nil
	storedAt  time.Time
}

// noteStored notes that the answer is in the event store and was not sent.
func (r *Request) noteStored() {
	a := &storedAnswer{
		ctx: context.Background(), session: r.session, series: r.Route.Series,
		id: logline.Printable(r.ID.String(), maxIDLogged), storedAt: time.Now(),
	}
	if r.Conn != nil {
		a.principal = r.Conn.Principal
	}
	r.core.tell("Stored", func(o Observer) { a.ctx = o.Stored(r) })
	r.logStored()
	r.stream.Log().(*resume.Log).NoteUnread(r.reply.EventID, a)
}

// answersExpired counts, logs and lists stored answers that no client can fetch any more, and tells the
// observer of them. They still count as stored: the fate of an answer is decided once. An answer that ends
// with a session that was idle, or that its client has deleted, is in the usual course of things, and is
// logged at info. One that another replica may replay is neither listed nor told of.
func (c *Core) answersExpired(reason mcp.ExpireReason, answers []any) {
	c.ledger.count(func(t *tally) { t.ResponsesExpired[reason] += uint64(len(answers)) })
	level := slog.LevelWarn
	switch reason {
	case mcp.ExpireSessionEnded, mcp.ExpireSessionIdle, mcp.ExpireLeftInStore:
		level = slog.LevelInfo
	}
	now := time.Now()
	for _, about := range answers {
		stored := about.(*storedAnswer)
		a := stored.expired(reason, now)
		if reason != mcp.ExpireLeftInStore {
			c.expired.add(a)
			c.tell("AnswerExpired", func(o Observer) { o.AnswerExpired(a, stored.principal) })
		}
		if ok, silenced := stored.session.lines.AllowSome(maxStoredLines, "response.expired", string(reason), now); ok {
			c.logger.Log(a.Context, level, "response.expired", append(a.logAttrs(), "reason", reason, "silenced", silenced)...)
		}
	}
}

// expired describes the answer at its end.
func (a *storedAnswer) expired(reason mcp.ExpireReason, now time.Time) *ExpiredAnswer {
	x := &ExpiredAnswer{
		Context: a.ctx, Method: a.series.Method, Target: a.series.Target, ID: a.id,
		Session: a.session.LogID(), Principal: logline.Printable(a.principal.String(), maxClientText), Reason: reason, StoredAt: a.storedAt, ExpiredAt: now,
	}
	if p := a.session.Peer(); p != nil {
		x.Client, x.ClientVersion = p.clientTexts()
	}
	return x
}

// logAttrs are the fields by which logs name the answer.
func (a *ExpiredAnswer) logAttrs() []any {
	attrs := []any{"method", a.Method, "id", a.ID}
	attrs = appendText(attrs, "target", a.Target)
	attrs = append(attrs, "session", a.Session)
	attrs = appendText(attrs, "client", a.Client)
	attrs = appendText(attrs, "client_version", a.ClientVersion)
	attrs = appendText(attrs, "principal", a.Principal)
	return append(attrs, "stored_for", a.ExpiredAt.Sub(a.StoredAt))
}

// maxExpiredListed bounds the list of lost answers.
const maxExpiredListed = 128

// expiredAnswers are the latest lost answers. When the list is full, a new one takes the place of an answer of
// the caller that has the most of them, and among those of the oldest one of the session with the most. So no
// caller hides the losses of the others, not even with many sessions, and no session those of another one of
// its caller.
type expiredAnswers struct {
	mu   sync.Mutex
	list []*ExpiredAnswer // oldest first
}

func (e *expiredAnswers) add(a *ExpiredAnswer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, a)
	if len(e.list) <= maxExpiredListed {
		return
	}
	caller := mostFrequent(e.list, (*ExpiredAnswer).caller)
	ofCaller := make([]*ExpiredAnswer, 0, len(e.list))
	for _, x := range e.list {
		if x.caller() == caller {
			ofCaller = append(ofCaller, x)
		}
	}
	session := mostFrequent(ofCaller, func(x *ExpiredAnswer) string { return x.Session })
	oldest := slices.IndexFunc(e.list, func(x *ExpiredAnswer) bool { return x.caller() == caller && x.Session == session })
	e.list = slices.Delete(e.list, oldest, oldest+1)
}

// An expiredCaller tells whose lost answers count together.
type expiredCaller struct{ client, version, principal string }

func (a *ExpiredAnswer) caller() expiredCaller {
	return expiredCaller{a.Client, a.ClientVersion, a.Principal}
}

// mostFrequent returns the key that most of the answers have, and among equals the one that was the first to
// have so many.
func mostFrequent[K comparable](list []*ExpiredAnswer, key func(*ExpiredAnswer) K) K {
	var most K
	counts := make(map[K]int)
	for _, x := range list {
		k := key(x)
		if counts[k]++; counts[k] > counts[most] {
			most = k
		}
	}
	return most
}

// all returns copies of the answers, oldest first.
func (e *expiredAnswers) all() []ExpiredAnswer {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]ExpiredAnswer, len(e.list))
	for i, a := range e.list {
		list[i] = *a
	}
	return list
}
