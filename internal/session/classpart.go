package session

import (
	"context"
	"sync/atomic"
)

// A classPart is what one holder has of the slot of a class: a handler, or the task that it has become.
// A holder whose route yields lets its part go while it waits for its client. The zero value has no part.
// Its methods are safe for concurrent use.
type classPart struct{ state atomic.Uint32 }

// What a holder has.
const (
	partNone    uint32 = iota // nothing, or nothing any more
	partHeld                  // the slot
	partYielded               // the slot again, as soon as it takes it
)

// yield lets the part go.
func (p *classPart) yield(of *slots) {
	if p.state.CompareAndSwap(partHeld, partYielded) {
		of.giveClass()
	}
}

// resume takes a part that was let go, and waits for it. It returns the cause of ctx if that ends first.
func (p *classPart) resume(ctx context.Context, of *slots) error {
	if p.state.Load() != partYielded {
		return nil
	}
	if err := of.takeClass(ctx); err != nil {
		return err
	}
	if !p.state.CompareAndSwap(partYielded, partHeld) {
		of.giveClass() // the holder has ended, or another of its goroutines has taken the part
	}
	return nil
}

// end gives the part back for good.
func (p *classPart) end(of *slots) {
	if p.state.Swap(partNone) == partHeld {
		of.giveClass()
	}
}
