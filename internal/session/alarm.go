package session

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
)

// alarms are used again, because every request needs one and hardly any of them fires. The
// plain version is time.AfterFunc for each request.
type alarms struct{ idle sync.Pool } // of *alarm

// An alarm watches over one request at a time: it tells the stream if the answer is not a
// quick one, and expires the request at its deadline.
type alarm struct {
	timer   *time.Timer
	request atomic.Pointer[Request]
}

// set returns an alarm for r, which has just arrived.
func (t *alarms) set(r *Request) *alarm {
	patience := r.Deadline().Sub(r.began)
	if r.stream.ExpectQuick() {
		patience = min(patience, stream.QuickAnswer)
	}
	a, ok := t.idle.Get().(*alarm)
	if !ok {
		a = new(alarm)
		a.timer = time.AfterFunc(math.MaxInt64, a.ring) // no sooner: it needs its timer
	}
	a.request.Store(r)
	a.timer.Reset(patience)
	return a
}

// ring is called when the time of the alarm has come.
func (a *alarm) ring() {
	r := a.request.Load()
	r.stream.Slow()
	left := time.Until(r.Deadline())
	if left <= 0 {
		r.expire()
		return
	}
	if r.holds.Load() > 0 { // or it has left; if that comes right now, there is nothing to expire
		a.timer.Reset(left)
	}
}

// unset ends an alarm. It must be called once at most. One that rings already keeps its
// request, and is not used again.
func (t *alarms) unset(a *alarm) {
	if a.timer.Stop() {
		a.request.Store(nil)
		t.idle.Put(a)
	}
}
