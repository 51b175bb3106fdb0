package session

import (
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/rates"
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

// maxStoredLines bounds the log lines of a second about stored answers, and about lost ones, for each session and
// reason.
const maxStoredLines = 32

// logStored writes the log line of an answer that is in the event store and was not sent.
func (r *Request) logStored() {
	if !r.core.logger.Enabled(r.ctx, slog.LevelDebug) {
		return
	}
	if ok, silenced := r.session.lines.AllowSome(maxStoredLines, "response.stored", "", time.Now()); ok {
		r.core.logger.DebugContext(r.ctx, "response.stored", append(r.LogAttrs(), "event", r.reply.EventID, "silenced", silenced)...)
	}
}

// LogAttrs are the fields by which logs name a session and its client.
func (s *Session) LogAttrs() []any {
	return append([]any{"session", s.LogID()}, s.core.PeerAttrs(s.conn, nil, s)...)
}

// sender returns the fields that name the peer in the log.
func (s *Session) sender() []any { return appendText(s.LogAttrs(), "remote", s.conn.RemoteAddr) }

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
	if name == "" && in.Method == mcp.MethodInitialize { // a request that is not admitted opens no session
		var params struct {
			ClientInfo struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"clientInfo"`
		}
		_ = wire.Unmarshal(in.Params, &params) // what cannot be read is empty
		name, version = logline.Printable(params.ClientInfo.Name, maxClientText), logline.Printable(params.ClientInfo.Version, maxClientText)
	}
	attrs = appendText(appendText(attrs, "client", name), "client_version", version)
	if p := in.Conn.principal(); p != nil {
		attrs = append(attrs, "principal", logline.Printable(p.String(), maxClientText))
	}
	return attrs
}

// PeerAttrs are the fields by which logs name the client and the principal of an exchange over conn. in
// and s are its message and its session, or nil.
func (c *Core) PeerAttrs(conn *Conn, in *Inbound, s *Session) []any {
	if in == nil {
		in = &Inbound{Conn: conn, Era: mcp.Legacy}
	}
	return c.appendSender(nil, in, s)
}

// appendText appends what is known, and nothing for "".
func appendText(attrs []any, key, value string) []any {
	if value == "" {
		return attrs
	}
	return append(attrs, key, value)
}

// logRejected writes the log line of a rejected request. What a rate limit refuses may come often:
// there is one line at info level for each second and limit, with the address of the caller.
func (c *Core) logRejected(r *Request, reason mcp.RejectReason, err *mcp.Error) {
	level, attrs := slog.LevelInfo, append(r.LogAttrs(), "reason", reason)
	if refusal, ok := mcp.AsRefusal(err); ok {
		attrs = append(attrs, refusalAttrs(refusal)...)
		if refusal.Reason == rates.Reason && c.rates.Has(refusal.By) {
			var silenced slog.Attr
			level, silenced = c.senderLevel("request.rejected", refusal.By)
			attrs = append(attrs, silenced)
			if r.Conn != nil {
				attrs = appendText(attrs, "remote", r.Conn.RemoteAddr)
			}
		}
	}
	if data, ok := err.Data.(mcp.ErrorData); ok {
		attrs = append(appendText(attrs, "limit", data.Limit), logClass(data.Class)...)
	}
	c.logger.Log(r.ctx, level, "request.rejected", attrs...)
}

// refusalAttrs returns what the log says of a refusal: all of it, because only operators read
// the log.
func refusalAttrs(r *mcp.Refusal) (attrs []any) {
	attrs = []any{"refusal", logline.Printable(r.Reason, maxLabelText), "by", logline.Printable(r.By, maxLabelText)}
	if r.Err != nil {
		attrs = append(attrs, "error", r.Err)
	}
	return attrs
}

// appendClient appends the fields by which logs name the client; p may be nil.
func (p *Peer) appendClient(attrs []any) []any {
	if p == nil {
		return attrs
	}
	name, version := p.clientTexts()
	attrs = appendText(attrs, "client", name)
	return appendText(attrs, "client_version", version)
}
