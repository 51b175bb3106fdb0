package session

import (
	"iter"
	"sync/atomic"
	"time"
)

// MaxTimedMiddlewares is how many middlewares of a route are timed by themselves. The others count
// as one.
const MaxTimedMiddlewares = 8

// maxStages is the middlewares that are timed, the others, and the handler.
const maxStages = MaxTimedMiddlewares + 2

// StageHandler is the name of the last stage. StageMiddleware is the start of the names of the others.
const (
	StageHandler    = "handler"
	StageMiddleware = "middleware "
)

// Stages says how long a request was in each middleware of its route and in the handler. A stage
// contains those behind it. A request without middlewares has no Stages. All methods are safe for
// concurrent use and for a nil receiver.
type Stages struct {
	names []string // of the stages, the outermost first; shared by all requests of the route
	began time.Time
	// times has the ns in each stage so far, plus 1 for each visit that has ended, so that a stage
	// that was entered is never 0. For a visit that goes on, its begin and openVisit are subtracted:
	// so a stage is open while its time is negative.
	times [maxStages]atomic.Int64
}

// openVisit is longer than the times of all requests, in ns.
const openVisit = 1 << 52

// Begin prepares the stages of a request with the given names, the outermost first. At most
// [MaxTimedMiddlewares] and two more are allowed. It must be called before the request is passed on.
func (s *Stages) Begin(r *Request, names []string) {
	s.names, s.began = names, r.began
	r.stages.Store(s)
}

// Enter notes that a stage is entered.
func (s *Stages) Enter(stage int) {
	if s != nil {
		s.times[stage].Add(-int64(time.Since(s.began)) - openVisit)
	}
}

// Leave notes that a stage is left. Each call of Enter needs one of Leave.
func (s *Stages) Leave(stage int) {
	if s != nil {
		s.times[stage].Add(int64(time.Since(s.began)) + openVisit + 1)
	}
}

// within returns the time in a stage and those behind it, up to now for one that is not left, and
// whether the stage was entered.
func (s *Stages) within(stage int) (took time.Duration, entered bool) {
	t := s.times[stage].Load()
	if t < 0 {
		visits := max((-t+openVisit/2)/openVisit, 1)
		return time.Duration(max(t+visits*(openVisit+int64(time.Since(s.began))), 0)), true
	}
	return time.Duration(max(t-1, 0)), t > 0
}

// Own returns the stages that were entered, the outermost first, each with the time in it without
// those behind it. If a middleware calls the next stage on another goroutine and does not wait, its
// own time is too short.
func (s *Stages) Own() iter.Seq2[string, time.Duration] {
	return func(yield func(string, time.Duration) bool) {
		if s == nil {
			return
		}
		for i, name := range s.names {
			took, entered := s.within(i)
			if !entered {
				continue
			}
			if i+1 < len(s.names) {
				inner, _ := s.within(i + 1)
				took = max(took-inner, 0)
			}
			if !yield(name, took) {
				return
			}
		}
	}
}

// In returns the name of the innermost stage that was entered and not left, or "".
func (s *Stages) In() string {
	if s != nil {
		for i := len(s.names) - 1; i >= 0; i-- {
			if s.times[i].Load() < 0 {
				return s.names[i]
			}
		}
	}
	return ""
}

// Stages returns how long the request was in its middlewares and its handler, or nil if its route
// has no middlewares.
func (r *Request) Stages() *Stages { return r.stages.Load() }

// Decoded notes how long it took to decode and validate the arguments.
func (r *Request) Decoded(took time.Duration) { r.decoded.Add(int64(took)) }

// Encoded notes how long it took to encode and validate the output of a tool.
func (r *Request) Encoded(took time.Duration) { r.encoded.Add(int64(took)) }

// Coding returns what [Request.Decoded] and [Request.Encoded] have noted.
func (r *Request) Coding() (decoded, encoded time.Duration) {
	return time.Duration(r.decoded.Load()), time.Duration(r.encoded.Load())
}

// In says where the request is while its handler runs: the name of a middleware, "handler", or "" if
// it is in neither. Without middlewares it is in the handler from its start to its return.
func (r *Request) In() string {
	if s := r.Stages(); s != nil {
		return s.In()
	}
	if r.startedAt.Load() != 0 && r.handlerDone.Load() == 0 {
		return StageHandler
	}
	return ""
}
