package session

import (
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// FreeBody is the size in bytes up to which a message is not charged. Such a message is a part of
// what a connection may take.
const FreeBody = 4 << 10

// A Body is what one frame holds of the budget for messages: from the moment when memory is set
// aside for it until its requests are over. A nil Body holds nothing. Grow is for one goroutine
// at a time, the other methods are safe for concurrent use.
type Body struct {
	budget *share.Bytes
	caller *share.Caller
	bytes  int64
	holds  atomic.Int32
}

// NewBody returns a body that holds nothing yet. Its owner must call [Body.Release].
func (c *Core) NewBody(conn *Conn) *Body {
	b := &Body{budget: c.bodies, caller: c.Caller(conn)}
	b.holds.Store(1)
	return b
}

// Grow sets aside n bytes in all, and reports whether they could be had.
func (b *Body) Grow(n int) bool {
	more := int64(n) - b.bytes
	if !b.budget.Take(b.caller, more) {
		return false
	}
	b.bytes += more
	return true
}

// Hold adds an owner. The caller must be one.
func (b *Body) Hold() {
	if b != nil {
		b.holds.Add(1)
	}
}

// Release gives back what the body holds when its last owner does.
func (b *Body) Release() {
	if b != nil && b.holds.Add(-1) == 0 {
		b.budget.Give(b.caller, b.bytes)
		b.caller.Release()
	}
}

// chargeBody charges a message that has come over a byte stream, and reports whether there was
// room for it. An HTTP body is charged while it arrives.
func (r *Request) chargeBody() bool {
	if r.Body != nil || r.session == nil || r.session.stream == nil || r.Bytes <= FreeBody {
		return true
	}
	b := r.core.NewBody(r.Conn)
	if !b.Grow(r.Bytes) {
		b.Release()
		return false
	}
	r.Body = b
	return true
}
