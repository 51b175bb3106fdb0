package telemetry

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// A FlightReason is what a snapshot of the flight recorder was taken for.
type FlightReason string

// The reasons for a snapshot.
const (
	FlightSlowHandler      FlightReason = "slow_handler"
	FlightAbandonedHandler FlightReason = "abandoned_handler"
	FlightOnDemand         FlightReason = "on_demand"
)

// A FlightDrop is why a reason for a snapshot has led to none.
type FlightDrop string

const (
	FlightDropInterval FlightDrop = "interval" // the one before was not long ago
	FlightDropBusy     FlightDrop = "busy"     // another one waits to be taken
	FlightDropFailed   FlightDrop = "failed"   // it could not be taken
)

func flightReasons() []FlightReason {
	return []FlightReason{FlightSlowHandler, FlightAbandonedHandler, FlightOnDemand}
}

func flightDrops() []FlightDrop {
	return []FlightDrop{FlightDropInterval, FlightDropBusy, FlightDropFailed}
}

// CountSnapshot counts a snapshot of the flight recorder.
func (t *Telemetry) CountSnapshot(reason FlightReason) {
	if t.metrics != nil {
		t.metrics.health.snapshots.WithLabelValues(string(reason)).Inc()
	}
}

// CountDroppedTrigger counts a reason for a snapshot that has led to none.
func (t *Telemetry) CountDroppedTrigger(why FlightDrop) {
	if t.metrics != nil {
		t.metrics.health.triggersDropped.WithLabelValues(string(why)).Inc()
	}
}

// A HandlerIncident is a handler that somebody should look at.
type HandlerIncident struct {
	Reason FlightReason
	// Method and Target are the labels of its metrics: the method, and the registered
	// name of the tool or prompt, or "".
	Method, Target string
	// TraceID is the trace of the request in hexadecimal.
	TraceID string
	// Ran is how long the handler has run, until its return or, if it was abandoned, until
	// now; the time in the queue is not included.
	Ran time.Duration
}

// WatchHandlers calls f for each handler of a request that has run for slow or longer,
// when it has returned and the fate of its answer is known, and for each that has
// ignored its cancelled context for so long that it was abandoned. A slow of 0 or less
// leaves the slow ones out; subscriptions are never slow. f is called on the goroutines
// of requests and must not block. There is one watcher: it replaces the one before, and
// stop ends it. Calls that have begun may outlast stop. Disabled telemetry watches
// nothing.
func (t *Telemetry) WatchHandlers(slow time.Duration, f func(HandlerIncident)) (stop func()) {
	o, enabled := t.observer.(*observer)
	if !enabled {
		return func() {}
	}
	w := &handlerWatch{slow: slow, tell: f}
	o.watch.Store(w)
	return func() { o.watch.CompareAndSwap(w, nil) }
}

// A handlerWatch is who wants to know of incidents. A nil one does not.
type handlerWatch struct {
	slow time.Duration
	tell func(HandlerIncident)
}

// finished tells of a handler that has returned, if it was slow.
func (w *handlerWatch) finished(r *session.Request) {
	if w == nil || w.slow <= 0 {
		return
	}
	done, returned := r.HandlerDone()
	if _, subscription := r.Acknowledged(); subscription || !returned {
		return
	}
	if ran := ranUntil(r, done); ran >= w.slow {
		w.tell(incident(FlightSlowHandler, r, ran))
	}
}

// abandoned tells of a handler that was given up.
func (w *handlerWatch) abandoned(r *session.Request) {
	if w != nil {
		w.tell(incident(FlightAbandonedHandler, r, ranUntil(r, time.Since(r.ArrivedAt()))))
	}
}

// ranUntil returns how long a handler had run at a time after the arrival of its request.
func ranUntil(r *session.Request, end time.Duration) time.Duration {
	waited, _ := r.QueueWait()
	return max(end-waited, 0)
}

func incident(reason FlightReason, r *session.Request, ran time.Duration) HandlerIncident {
	s := r.Route.Series
	return HandlerIncident{Reason: reason, Method: s.Method, Target: s.Target, TraceID: TraceID(r), Ran: ran}
}
