package session

import (
	"context"
	"log/slog"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// RefuseExchange counts and logs an HTTP exchange that was refused before it carried a
// message: it has no part in the conservation of messages.
func (c *Core) RefuseExchange(ctx context.Context, reason mcp.RefuseReason, attrs ...slog.Attr) {
	c.ledger.exchangesRefused(reason)
	switch reason {
	case mcp.RefuseBodyTimeout:
		c.ledger.limitReached(limits.NameBodyTimeout)
	case mcp.RefuseOverload:
		c.ledger.limitReached(limits.NameBodyBytes)
	}
	level, silenced := slog.LevelDebug, slog.Int("silenced", 0)
	if reason == mcp.RefuseHost || reason == mcp.RefuseOrigin { // a setting may be wrong
		level, silenced = c.senderLevel("http.refused", string(reason))
	}
	c.logger.LogAttrs(ctx, level, "http.refused", append(attrs, slog.Any("reason", reason), silenced)...)
}
