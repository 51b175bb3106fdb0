package session

// block says that the handler waits for its client. A route that yields lets the slot of its class go.
func (r *Request) block() {
	r.blocked.begin(func() {
		for _, from := range []Phase{PhaseRunning, PhaseQueued} {
			r.phase.CompareAndSwap(uint32(from), uint32(PhaseBlocked))
		}
		if r.Route.YieldsClass {
			r.slots.handler.yield(&r.slots)
		}
	})
}

// unblock ends what block has begun. After the last wait the handler gets its slot back, for which the
// request is queued; unblock returns the cause of the request's end if that comes first.
func (r *Request) unblock() (err error) {
	next := PhaseRunning
	if r.Route.YieldsClass {
		next = PhaseQueued
	}
	last := false
	r.blocked.end(func() {
		last = true
		r.phase.CompareAndSwap(uint32(PhaseBlocked), uint32(next))
	})
	if last && r.Route.YieldsClass {
		err = r.slots.handler.resume(r.ctx, &r.slots)
		r.phase.CompareAndSwap(uint32(PhaseQueued), uint32(PhaseRunning))
	}
	return err
}

// Block says that a handler that goes on as a task waits for its client, and Unblock that it does so no
// more. A route that yields has no slot of its class meanwhile. After the last wait Unblock waits for
// one, and returns the cause of the task's end if that comes first.
func (d *Detached) Block() {
	d.blocked.begin(func() {
		if d.yields {
			d.inClass.yield(d.class)
		}
	})
}

// Unblock ends what Block has begun.
func (d *Detached) Unblock() (err error) {
	last := false
	d.blocked.end(func() { last = true })
	if last && d.yields {
		err = d.inClass.resume(d.Context(), d.class)
	}
	return err
}
