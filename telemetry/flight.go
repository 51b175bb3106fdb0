package telemetry

import "time"

// A HandlerIncident is a handler that somebody should look at.
type HandlerIncident struct {
	// Reason is IncidentSlow or IncidentAbandoned.
	Reason string
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
	if !t.Enabled() {
		return func() {}
	}
	w := &handlerWatch{slow: slow, tell: f}
	t.watch.Store(w)
	return func() { t.watch.CompareAndSwap(w, nil) }
}

// A handlerWatch is told of incidents. A nil one is told nothing.
type handlerWatch struct {
	slow time.Duration
	tell func(HandlerIncident)
}

// finished tells of a handler that has returned, if it was slow.
func (w *handlerWatch) finished(op *Operation, out *Outcome) {
	if w == nil || w.slow <= 0 || out.Acknowledged != 0 || out.Returned == 0 {
		return
	}
	if ran := max(out.Returned-out.Started, 0); ran >= w.slow {
		w.tell(op.incident(IncidentSlow, ran))
	}
}

// abandoned tells of a handler that was given up.
func (w *handlerWatch) abandoned(op *Operation, out *Outcome) {
	if w != nil {
		w.tell(op.incident(IncidentAbandoned, max(time.Since(op.arrivedAt())-out.Started, 0)))
	}
}

func (op *Operation) incident(reason string, ran time.Duration) HandlerIncident {
	return HandlerIncident{Reason: reason, Method: op.Method(), Target: op.Target(), TraceID: op.TraceID(), Ran: ran}
}
