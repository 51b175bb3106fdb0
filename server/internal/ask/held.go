package ask

import (
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// Hold keeps what the value of an answer or of the arguments holds until this run of the handler ends. If it has ended, because a goroutine asks that the
// handler has left behind, that is given back at once.
func (d *Dialog) Hold(h *share.Held) {
	if h == nil {
		return
	}
	d.mu.Lock()
	over := d.over
	if !over {
		d.held = append(d.held, h)
	}
	d.mu.Unlock()
	if over {
		h.Release()
	}
}

// giveBack gives back what the value of an answer holds, unless EndRun has.
func (d *Dialog) giveBack(h *share.Held) {
	d.mu.Lock()
	i := slices.Index(d.held, h)
	if i >= 0 {
		d.held = slices.Delete(d.held, i, i+1)
	}
	d.mu.Unlock()
	if i >= 0 {
		h.Release()
	}
}

// heldBytes returns what the arguments and answers hold that this run of the handler has got.
func (d *Dialog) heldBytes() (bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.held {
		bytes += h.Bytes()
	}
	return bytes
}

// beginRun says that the handler is called again.
func (d *Dialog) beginRun() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = false
}

// EndRun gives back what this run of the handler holds.
func (d *Dialog) EndRun() {
	d.mu.Lock()
	held := d.held
	d.held, d.over = nil, true
	d.mu.Unlock()
	for _, h := range held {
		h.Release()
	}
}
