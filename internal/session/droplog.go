package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// linesAbout returns the limiter for log lines about r, which may be nil.
func (c *Core) linesAbout(r *Request) *logline.Limiter {
	if r == nil || r.session == nil {
		return &c.lines
	}
	return &r.session.lines
}

// logDrop writes the log line of a dropped answer.
func (c *Core) logDrop(r *Request, reason mcp.DropReason) {
	if ok, silenced := c.linesAbout(r).Allow("response.dropped", string(reason), time.Now()); ok {
		c.logger.DebugContext(r.ctx, "response.dropped",
			append(r.LogAttrs(), "reason", reason, "silenced", silenced)...)
	}
}

// dropNotification counts and logs a notification that is not sent. r is the
// request that it is about, or nil.
func (c *Core) dropNotification(r *Request, method string, reason mcp.DropReason) {
	c.ledger.notificationDropped(method, reason)
	if r != nil {
		c.tell("NotificationDropped", func(o Observer) { o.NotificationDropped(r, method, reason) })
	}
	if ok, silenced := c.linesAbout(r).Allow("notification.dropped", string(reason), time.Now()); ok {
		ctx, attrs := context.Background(), []any{"notification", method, "reason", reason, "silenced", silenced}
		if r != nil {
			ctx, attrs = r.ctx, append(attrs, r.LogAttrs()...)
		}
		c.logger.DebugContext(ctx, "notification.dropped", attrs...)
	}
}

// senderLevel returns the level of a log line about what a sender is not served with, so
// that its owner can find out who sends it: info once a second for each reason, with the
// number of those that were silenced before, else debug.
func (c *Core) senderLevel(record, reason string) (level slog.Level, silenced slog.Attr) {
	ok, n := c.lines.Allow(record, reason, time.Now())
	if ok {
		level = slog.LevelInfo
	} else {
		level = slog.LevelDebug
	}
	return level, slog.Int("silenced", n)
}

// logMalformed writes the log line of a frame that is no message.
func (c *Core) logMalformed(reason wire.Reason, text string, sender []slog.Attr) {
	level, silenced := c.senderLevel("frame.malformed", string(reason))
	c.logger.LogAttrs(context.Background(), level, "frame.malformed",
		append(sender, slog.Any("reason", reason), slog.String("error", text), silenced)...)
}

// sender says in the log who the peer is.
func (s *Session) sender() []slog.Attr {
	attrs := []slog.Attr{slog.String("session", s.LogID())}
	if s.conn.RemoteAddr != "" {
		attrs = append(attrs, slog.String("remote", s.conn.RemoteAddr))
	}
	return attrs
}
