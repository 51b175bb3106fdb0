package session

import (
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
)

// freeValue is the size in bytes up to which a decoded value is not charged: it is a part of what a running request may take.
const freeValue = 4 << 10

// HoldValue is [Core.HoldValue] for what is decoded from the request. The request may be over.
func (r *Request) HoldValue(bytes int) (*share.Held, error) {
	return r.core.HoldValue(r.Inbound, r.session, bytes)
}

// HoldValue charges the sender of a message for a Go value of so many bytes, until the result is released, which may be nil. It
// returns the error of [Overload] if there is no room for the value. Work that begins again goes on without: it was accepted when it was sent.
func (c *Core) HoldValue(in *Inbound, s *Session, bytes int) (*share.Held, error) {
	if bytes <= freeValue {
		return nil, nil
	}
	caller := c.CallerOf(in, s)
	held := c.values.Hold(caller, int64(bytes))
	if held != nil {
		return held, nil
	}
	caller.Release()
	if in.Restarted != nil {
		return nil, nil
	}
	c.ledger.limitReached(limits.NameArgumentBytesTotal)
	return nil, Overload(limits.NameArgumentBytesTotal)
}
