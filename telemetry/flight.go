package telemetry

import "time"

// A HandlerIncident is a slow or an abandoned handler.
type HandlerIncident struct {
	// Reason is IncidentSlow or IncidentAbandoned.
	Reason string
	// Method and Target are the labels of its metrics: the method, and the registered
	// name of the tool or prompt, or "".
	Method, Target string
	// TraceID is the trace of the request in hexadecimal.
	TraceID string
	// Ran is how long the handler has run: until its return, or until now if it was abandoned.
	// The time in the queue is not included.
	Ran time.Duration
}

// WatchHandlers calls f for each slow and each abandoned handler of a request. A handler is slow
// if it has run for slow or longer; f is called when it has returned and the fate of its answer
// is known. With slow of 0 or less no handler is slow. Subscriptions and what streams ([Outcome].Streams) are never slow. A handler
// is abandoned if it ignores its cancelled context for too long.
//
// f runs on the goroutines of requests and must not block. There is one watcher at a time: a new
// one replaces it, and stop removes it. Calls of f that have begun may outlast stop. For
// disabled telemetry f is never called.
func (t *Telemetry) WatchHandlers(slow time.Duration, f func(HandlerIncident)) (stop func()) {
	if !t.Enabled() {
		return func() {}
	}
	w := &handlerWatch{slow: slow, tell: f}
	t.watch.Store(w)
	return func() { t.watch.CompareAndSwap(w, nil) }
}

// A handlerWatch is a watcher of handlers. A nil handlerWatch does nothing.
type handlerWatch struct {
	slow time.Duration
	tell func(HandlerIncident)
}

// finished reports a handler that has returned, if it was slow.
func (w *handlerWatch) finished(op *Operation, out *Outcome) {
	if w == nil || w.slow <= 0 || out.Acknowledged != 0 || out.Streams || out.Returned == 0 {
		return
	}
	if ran := max(out.Returned-out.Started, 0); ran >= w.slow {
		w.tell(op.incident(IncidentSlow, ran))
	}
}

// abandoned reports an abandoned handler.
func (w *handlerWatch) abandoned(op *Operation, out *Outcome) {
	if w != nil {
		w.tell(op.incident(IncidentAbandoned, max(time.Since(op.arrivedAt())-out.Started, 0)))
	}
}

func (op *Operation) incident(reason string, ran time.Duration) HandlerIncident {
	return HandlerIncident{Reason: reason, Method: op.Method(), Target: op.Target(), TraceID: op.TraceID(), Ran: ran}
}
