package session

// A point is a place in the life of a request at which tests may hold it.
type point uint8

const (
	pointAdmitted     point = iota // in the live set, its goroutine not started
	pointBeforeSettle              // the handler has returned, its outcome is not fixed
	pointAfterSettle               // the outcome is fixed, the answer is not queued
	pointBeforeWrite               // the writer has taken the answer
	pointAfterFlush                // the answer is with the kernel, its fate not recorded

	// Two more, for orders that the five cannot make.
	pointBeforeNotify // a notification was let through and is not queued
	pointIdle         // a session's idle timer has fired; there is no request
)

// hooks lets tests hold a request at the yield points. It is nil in production.
type hooks func(p point, r *Request)

func (h hooks) at(p point, r *Request) {
	if h != nil && (r != nil || p == pointIdle) {
		h(p, r)
	}
}
