package session

import (
	"context"
	"log/slog"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// RefuseExchange counts and logs an HTTP exchange that was refused before it carried a
// message: it has no part in the conservation of messages.
func (c *Core) RefuseExchange(ctx context.Context, x *RefusedExchange, attrs ...any) {
	reason := x.Reason
	c.ledger.exchangesRefused(reason)
	c.tell("ExchangeRefused", func(o Observer) { o.ExchangeRefused(x) })
	switch reason {
	case mcp.RefuseBodyTimeout:
		c.ledger.limitReached(limits.NameBodyTimeout)
	case mcp.RefuseTooManyHeaders:
		c.ledger.limitReached(limits.NameHeaders)
	case mcp.RefuseOverload:
		c.ledger.limitReached(limits.NameBodyBytes)
	}
	level, silenced := slog.LevelDebug, slog.Int("silenced", 0)
	if reason == mcp.RefuseHost || reason == mcp.RefuseOrigin { // a setting may be wrong
		level, silenced = c.senderLevel("http.refused", string(reason))
	}
	if !c.logger.Enabled(ctx, level) {
		return
	}
	c.logger.Log(ctx, level, "http.refused", append(attrs, "reason", reason, silenced)...)
}

// RefuseStream tells the observer of a byte stream whose peer the authenticator does not let in.
func (c *Core) RefuseStream(conn *Conn, refused *mcp.Refusal) {
	x := &RefusedExchange{Conn: conn, Reason: mcp.RefuseAuthentication, Refusal: refused}
	c.tell("ExchangeRefused", func(o Observer) { o.ExchangeRefused(x) })
}

// Connect opens the session of a byte stream and starts its writer.
func (c *Core) Connect(conn *Conn, sink stream.Sink) *Session {
	s := newSession(c, conn, "")
	s.caller = conn.callerOfStream()
	conn.session = s
	s.stream, s.subscriptionsEnding = stream.New(&c.host, c.streamConfig(conn, 0, stream.LossFails)), make(chan struct{})
	c.mu.Lock()
	draining := c.draining.Load()
	c.sessions[s] = struct{}{}
	c.mu.Unlock()
	c.tell("SessionOpened", func(o Observer) { o.SessionOpened(s) })
	c.tasks.start(func() { s.pump(sink) })
	if draining {
		s.Close(mcp.CauseServerShutdown)
	}
	return s
}

// Exchange returns the stream of one HTTP exchange, which ends when it has carried
// the given number of answers; 0 is a stream without an end. A modern exchange has
// no session; its loss cancels its requests.
func (c *Core) Exchange(conn *Conn, answers int, era mcp.Era) *stream.Stream {
	loss := stream.LossDrops
	if era == mcp.Modern {
		loss = stream.LossCancels
	}
	return stream.New(&c.host, c.streamConfig(conn, answers, loss))
}

// streamConfig says what a stream is for.
func (c *Core) streamConfig(conn *Conn, answers int, loss stream.Loss) stream.Config {
	return stream.Config{
		Answers: answers, Loss: loss, Resumable: c.store != nil && loss == stream.LossDrops,
		Conn: conn, Transport: conn.Transport, Remote: conn.RemoteAddr,
	}
}
