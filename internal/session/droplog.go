package session

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// dropLog limits the log lines about what was dropped or refused in a session, or outside
// of all, to one a second for each key, so that neither a dying peer with a thousand
// requests nor a flood of nonsense fills the disk. The counters know them all.
type dropLog struct {
	mu     sync.Mutex
	last   map[dropKey]time.Time
	silent map[dropKey]int
}

type dropKey struct {
	record string // the name of the log record
	reason string
}

func (d *dropLog) allow(key dropKey, now time.Time) (ok bool, silenced int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.last, d.silent = map[dropKey]time.Time{}, map[dropKey]int{}
	}
	if now.Sub(d.last[key]) < time.Second {
		d.silent[key]++
		return false, 0
	}
	silenced = d.silent[key]
	d.last[key], d.silent[key] = now, 0
	return true, silenced
}

// dropsOf returns the limiter for what is dropped on behalf of r, or of nobody.
func (c *Core) dropsOf(r *Request) *dropLog {
	if r == nil || r.session == nil {
		return &c.drops
	}
	return &r.session.drops
}

// logDrop writes the log line of a dropped answer.
func (c *Core) logDrop(r *Request, reason mcp.DropReason) {
	if ok, silenced := c.dropsOf(r).allow(dropKey{"response.dropped", string(reason)}, time.Now()); ok {
		c.logger.DebugContext(r.ctx, "response.dropped",
			append(r.LogAttrs(), "reason", reason, "silenced", silenced)...)
	}
}

// dropNotification counts and logs a notification that is not sent. r is the
// request that it is about, or nil.
func (c *Core) dropNotification(r *Request, method string, reason mcp.DropReason) {
	c.ledger.notificationDropped(method, reason)
	if r != nil {
		c.observer.NotificationDropped(r, method, reason)
	}
	if ok, silenced := c.dropsOf(r).allow(dropKey{"notification.dropped", string(reason)}, time.Now()); ok {
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
	ok, n := c.drops.allow(dropKey{record, reason}, time.Now())
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

// Printable makes a peer's text fit for a log or an attribute: at most limit
// bytes, control characters replaced.
func Printable(s string, limit int) string {
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return '\ufffd'
		}
		return r
	}, s)
}
