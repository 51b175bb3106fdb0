package ask

import "github.com/vitrine-mcp/vitrine/internal/share"

// hold charges the client for the value of an answer until this run of the handler ends. It returns an error if there is no room.
func (d *Dialog) hold(bytes int) error {
	held, err := d.Core.HoldAnswer(bytes)
	if err == nil {
		d.untilRunEnds(held)
	}
	return err
}

// untilRunEnds gives back what is held when this run of the handler ends. If it has ended, because a goroutine asks that the handler
// has left behind, it does so at once.
func (d *Dialog) untilRunEnds(h *share.Held) {
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

// beginRun says that the handler is called again.
func (d *Dialog) beginRun() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = false
}

// EndRun gives back what the values of answers take that this run of the handler has got.
func (d *Dialog) EndRun() {
	d.mu.Lock()
	held := d.held
	d.held, d.over = nil, true
	d.mu.Unlock()
	for _, h := range held {
		h.Release()
	}
}
