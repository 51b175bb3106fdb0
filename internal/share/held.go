package share

// A Held is what somebody has of a budget for some time. nil is nothing.
type Held struct {
	budget *Bytes
	caller *Caller
	n      int64
}

// Hold takes n bytes for a caller. It returns nil if they could not be had, and takes over the reference to the caller if they could.
// The result must be given back by [Held.Release].
func (b *Bytes) Hold(c *Caller, n int64) *Held {
	if !b.Take(c, n) {
		return nil
	}
	return &Held{b, c, n}
}

// Bytes returns how many bytes are held.
func (h *Held) Bytes() int { return int(h.n) }

// Release gives back what is held. It must be called once.
func (h *Held) Release() {
	if h != nil {
		h.budget.Give(h.caller, h.n)
		h.caller.Release()
	}
}
