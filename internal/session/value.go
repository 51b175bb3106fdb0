package session

import (
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// freeValue is the size in bytes up to which a decoded value is not charged: it is a part of what a running request may take.
const freeValue = 4 << 10

// HoldValue is [Core.HoldValue] for what is decoded from the request. The requests of a batch share what one may take. A request that
// begins again goes on without room: it was accepted when it was sent.
func (r *Request) HoldValue(bytes int) (*share.Held, error) {
	if limit := r.core.limits.MaxArgumentBytes; !r.batch.takesValue(bytes, limit) {
		r.core.ledger.limitReached(limits.NameArgumentBytes)
		return nil, mcp.NewError(mcp.CodeInvalidParams,
			"the decoded values of this batch take more than %d bytes of memory, which is all that %s allows for one message: send fewer requests in a batch",
			limit, limits.NameArgumentBytes).WithData(mcp.ErrorData{Limit: limits.NameArgumentBytes})
	}
	if r.Restarted == nil {
		return r.HoldAnswer(bytes)
	}
	held, _ := r.core.holdValue(r.Inbound, r.session, bytes)
	return held, nil
}

// HoldAnswer is [Core.HoldValue] for what the sender of the request has answered. The request may be over.
func (r *Request) HoldAnswer(bytes int) (*share.Held, error) {
	return r.core.HoldValue(r.Inbound, r.session, bytes)
}

// HoldValue charges the sender of a message for a Go value of so many bytes, until the result is released, which may be nil. It
// returns the error of [Overload] if there is no room for the value.
func (c *Core) HoldValue(in *Inbound, s *Session, bytes int) (*share.Held, error) {
	held, fits := c.holdValue(in, s, bytes)
	if !fits {
		c.ledger.limitReached(limits.NameArgumentBytesTotal)
		return nil, Overload(limits.NameArgumentBytesTotal)
	}
	return held, nil
}

// holdValue is HoldValue that reports whether there was room.
func (c *Core) holdValue(in *Inbound, s *Session, bytes int) (held *share.Held, fits bool) {
	if bytes <= freeValue {
		return nil, true
	}
	caller := c.CallerOf(in, s)
	if held = c.values.Hold(caller, int64(bytes)); held == nil {
		caller.Release()
	}
	return held, held != nil
}
