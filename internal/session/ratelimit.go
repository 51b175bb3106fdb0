package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// SetRates replaces the rate limits. It must be called before the first message. The error says what
// is wrong with the rules.
func (c *Core) SetRates(rules []rates.Rule) error {
	l, err := rates.New(rules, c.limits.MaxRateBuckets, func() { c.ledger.limitReached(limits.NameRateBuckets) })
	if err == nil {
		c.rates = l
		c.shareRates()
	}
	return err
}

// ShareRates has the rate limits share their buckets with other replicas. It must be called before the first
// message.
func (c *Core) ShareRates(with rates.Store) {
	c.sharedRates = with
	c.shareRates()
}

// shareRates connects the limiter with the store, if there is one.
func (c *Core) shareRates() {
	if c.sharedRates == nil {
		return
	}
	c.rates.Share(rates.Sharing{
		Store: c.sharedRates, Patience: c.limits.StoreTimeout,
		Failed:    func(err error) { c.logger.Warn("rates.local", "error", err) },
		Recovered: func(lasted time.Duration) { c.logger.Info("rates.shared", "lasted", lasted) },
	})
}

// rateLimited returns the refusal of a message that comes too often, or nil. target is the tool of
// a call. It may wait for the store for a moment, without a turn.
func (c *Core) rateLimited(in *Inbound, method, target string, now time.Time) *mcp.Refusal {
	if c.rates == nil {
		return nil
	}
	m := rates.Message{Method: method, Notification: in.ID.IsZero(), Turn: in}
	if method == mcp.MethodToolsCall {
		m.Tool = target
	}
	if conn := in.Conn; conn != nil {
		m.Principal, m.Addr = conn.Principal, conn.RemoteAddr
		if conn.Protocol == "" { // an HTTP exchange has a Conn of its own
			m.Conn = conn
		}
	}
	refused := c.rates.Check(&m, now)
	if refused != nil {
		c.ledger.limitReached(limits.NameRates)
	}
	return refused
}

// limitNotification counts and logs a notification that comes too often, and returns its refusal;
// nil if it may be handled. s may be nil.
func (c *Core) limitNotification(in *Inbound, s *Session) *mcp.Refusal {
	if c.rates == nil {
		return nil
	}
	refused := c.rateLimited(in, in.Method, "", time.Now())
	if refused == nil {
		return nil
	}
	c.ledger.ignored(receivedNotification, mcp.IgnoredNotification, mcp.IgnoreRateLimited)
	c.refused.add(refused)
	level, silenced := c.senderLevel("notification.refused", refused.By)
	attrs := c.appendSender([]any{"method", logline.Printable(in.Method, maxIDLogged), silenced}, in, s)
	if in.Conn != nil {
		attrs = appendText(attrs, "remote", in.Conn.RemoteAddr)
	}
	c.logger.Log(context.Background(), level, "notification.refused", append(attrs, refusalAttrs(refused)...)...)
	ctx, end := c.tellNotified(in, s)
	c.tellEnded(ctx, in, s, NotificationEnd{Ignored: mcp.IgnoreRateLimited, Refusal: refused})
	end()
	return refused
}
