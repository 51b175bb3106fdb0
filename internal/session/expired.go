package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A storedAnswer is what the log line of an answer needs that is in the event store. It does not
// keep the request, because a client has long to come for its answer.
type storedAnswer struct {
	ctx       context.Context // with the span, see [Observer.Stored]
	session   *Session
	series    *Series
	id        string
	principal string
	storedAt  time.Time
}

// noteStored notes that the answer is in the event store and was not sent.
func (r *Request) noteStored() {
	a := &storedAnswer{
		ctx: context.Background(), session: r.session, series: r.Route.Series,
		id: logline.Printable(r.ID.String(), maxIDLogged), storedAt: time.Now(),
	}
	if r.Conn != nil && r.Conn.Principal != nil {
		a.principal = logline.Printable(r.Conn.Principal.String(), maxClientText)
	}
	r.core.tell("Stored", func(o Observer) { a.ctx = o.Stored(r) })
	r.stream.Log().(*resume.Log).NoteUnread(r.reply.EventID, a)
}

// answersExpired counts and logs stored answers that no client can fetch any more. They still
// count as stored: the fate of an answer is decided once. An answer that ends with its session is
// in the usual course of things, and is logged at info. Of each reason there is a line a second for
// each session.
func (c *Core) answersExpired(reason mcp.ExpireReason, answers []any) {
	c.ledger.count(func(t *tally) { t.ResponsesExpired[reason] += uint64(len(answers)) })
	level := slog.LevelWarn
	switch reason {
	case mcp.ExpireSessionEnded, mcp.ExpireSessionIdle, mcp.ExpireLeftInStore:
		level = slog.LevelInfo
	}
	for _, about := range answers {
		a := about.(*storedAnswer)
		if ok, silenced := a.session.lines.Allow("response.expired", string(reason), time.Now()); ok {
			c.logger.Log(a.ctx, level, "response.expired", append(a.logAttrs(), "reason", reason, "silenced", silenced)...)
		}
	}
}

// logAttrs are the fields by which logs name the answer.
func (a *storedAnswer) logAttrs() []any {
	attrs := []any{"method", a.series.Method, "id", a.id}
	attrs = appendText(attrs, "target", a.series.Target)
	attrs = append(attrs, "session", a.session.LogID())
	attrs = a.session.Peer().appendClient(attrs)
	attrs = appendText(attrs, "principal", a.principal)
	return append(attrs, "stored_for", time.Since(a.storedAt))
}
