package session

import (
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// linesAbout returns the limiter for log lines about r, which may be nil.
func (c *Core) linesAbout(r *Request) *logline.Limiter {
	if r == nil || r.session == nil {
		return &c.lines
	}
	return &r.session.lines
}

// senderLevel returns the level of a log line about a message that is not served, so that an
// operator can find its sender: info once a second for each reason, with the number of lines
// that were silenced before, else debug.
func (c *Core) senderLevel(record, reason string) (level slog.Level, silenced slog.Attr) {
	ok, n := c.lines.Allow(record, reason, time.Now())
	if ok {
		level = slog.LevelInfo
	} else {
		level = slog.LevelDebug
	}
	return level, slog.Int("silenced", n)
}

// logDrop writes the log line of a dropped answer.
func (c *Core) logDrop(r *Request, reason mcp.DropReason) {
	if ok, silenced := c.linesAbout(r).Allow("response.dropped", string(reason), time.Now()); ok {
		c.logger.DebugContext(r.ctx, "response.dropped",
			append(r.LogAttrs(), "reason", reason, "silenced", silenced)...)
	}
}

// sender returns the fields that name the peer in the log.
func (s *Session) sender() []slog.Attr {
	attrs := []slog.Attr{slog.String("session", s.LogID())}
	if s.conn.RemoteAddr != "" {
		attrs = append(attrs, slog.String("remote", s.conn.RemoteAddr))
	}
	return attrs
}

// maxIDLogged bounds the bytes of an id in the log: a client's may be as long as a frame.
const maxIDLogged = 256

// LogAttrs are the fields by which logs name a request and its sender. The sender's name and version
// are its own words.
func (r *Request) LogAttrs() []any {
	attrs := []any{"method", r.Route.Series.Method, "id", logline.Printable(r.ID.String(), maxIDLogged)}
	if t := r.Route.Series.Target; t != "" {
		attrs = append(attrs, "target", t)
	}
	attrs = appendText(attrs, "concurrency_class", r.Route.Class.Label())
	if r.session != nil {
		attrs = append(attrs, "session", r.session.LogID())
	}
	attrs = r.core.appendSender(attrs, r.Inbound, r.session)
	via, addresses := r.Conn.Via(r.Header)
	attrs = appendText(appendText(attrs, "via", via), "forwarded_for", addresses)
	return append(attrs, "age", r.age())
}

// appendSender appends the client, its version and the principal of a message. s may be nil.
func (c *Core) appendSender(attrs []any, in *Inbound, s *Session) []any {
	name, version := c.ClientOf(in, s)
	attrs = appendText(appendText(attrs, "client", name), "client_version", version)
	if p := in.Conn.principal(); p != nil {
		attrs = append(attrs, "principal", logline.Printable(p.String(), maxClientText))
	}
	return attrs
}

// appendText appends what is known, and nothing for "".
func appendText(attrs []any, key, value string) []any {
	if value == "" {
		return attrs
	}
	return append(attrs, key, value)
}
