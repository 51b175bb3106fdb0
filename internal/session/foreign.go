package session

import (
	"context"
	"log/slog"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// What belongs to one principal and was named by another: labels of metrics.
const (
	ForeignSession = "session"
	ForeignTask    = "task"
	ForeignState   = "state"
)

// ForeignKinds lists what can be named by another principal. The caller owns the slice.
func ForeignKinds() []string { return []string{ForeignSession, ForeignTask, ForeignState} }

// Foreign counts and logs that a request has named what belongs to another principal. The answer is that
// for what does not exist, so nobody else can tell.
func (c *Core) Foreign(kind string, r *Request, attrs ...any) {
	c.foreign(r.ctx, kind, r.Conn, append(r.LogAttrs(), attrs...))
}

// foreignSession does so for a session, before the message is read.
func (c *Core) foreignSession(conn *Conn, session, owner string) {
	attrs := []any{"session", session, "owner", owner}
	if p := conn.principal(); p != nil {
		attrs = append(attrs, "principal", logline.Printable(p.String(), maxClientText))
	}
	c.foreign(context.Background(), ForeignSession, conn, attrs)
}

func (c *Core) foreign(ctx context.Context, kind string, conn *Conn, attrs []any) {
	c.ledger.count(func(t *tally) { t.Foreign[kind]++ })
	level, silenced := c.senderLevel("principal.foreign", kind)
	if level == slog.LevelInfo {
		level = slog.LevelWarn // an id was stolen, or a client mixes up its users
	}
	attrs = append(attrs, "kind", kind, silenced)
	if conn != nil {
		attrs = appendText(attrs, "remote", conn.RemoteAddr)
	}
	c.logger.Log(ctx, level, "principal.foreign", attrs...)
}
