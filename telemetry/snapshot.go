package telemetry

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Source is a server that knows itself what is in flight and counts what happens, such as
// ours, whose numbers agree with each other at any moment. Other servers need only
// [Telemetry.Begin].
type Source interface {
	// Snapshot returns one consistent moment of the source. It is called for each scrape and
	// for each page, possibly at the same time.
	Snapshot() *Snapshot
}

// A Snapshot is what is in flight in a server at one moment, and what it has counted.
type Snapshot struct {
	At       time.Time
	Requests []RequestState // without the subscriptions
	// Subscriptions are the requests that stay open.
	Subscriptions []RequestState
	Tasks         []TaskState // that run
	// TaskStatus counts the tasks by their status, if the server has them.
	TaskStatus map[mcp.TaskStatus]int
	Outbound   []OutboundState
	Sessions   []SessionState
	Readiness  Readiness
	Counters   Counters
}

// A RequestState is one request in flight.
type RequestState struct {
	Origin    Origin     // describes the request
	Operation *Operation // nil if there is none
	// State is queued, running, blocked (by a question to the client), writing,
	// cancelled, or listening.
	State        string
	Age          time.Duration
	Cancelled    *mcp.CancelError // nil if it is not
	CancelledFor time.Duration
	Abandoned    bool
}

// A TaskState is one handler that goes on as a task.
type TaskState struct {
	Tool string // the registered tool
	Name string // what people are shown of the task's id
	Age  time.Duration
	Left time.Duration // of its life; negative if that is over
	// Principal is on whose behalf it runs, or nil.
	Principal *auth.Principal
	// Cancelled is nil if it is not.
	Cancelled    *mcp.CancelError
	CancelledFor time.Duration
	Abandoned    bool
	Span         trace.SpanContext
}

// An OutboundState is a request to a client that is not answered yet.
type OutboundState struct {
	Session   string // what people are shown of it
	ID        mcp.ID
	Method    string
	Age       time.Duration
	For       Origin     // the request on whose behalf it was sent, or nil
	Operation *Operation // of that request, or nil
}

// A SessionState is one open session or connection.
type SessionState struct {
	Origin    Origin // describes it, in an [Info] without a request
	Transport string // a label
	Age       time.Duration
	Idle      time.Duration // 0 while it is in use
	Requests  int           // in flight
	Streaming bool          // the client listens on the session's own stream
}

// Counters are totals since the start. All keys and names become labels and must come
// from the closed sets of [Catalogue].
type Counters struct {
	Series               []SeriesCounters
	Received             map[string]uint64 // messages, by kind
	Rejected             map[mcp.RejectReason]uint64
	Ignored              map[mcp.IgnoredKind]map[mcp.IgnoreReason]uint64
	NotificationsDropped map[string]map[mcp.DropReason]uint64 // by method
	LimitsReached        map[string]uint64                    // by the name of the limit
	HTTPRefused          map[mcp.RefuseReason]uint64          // exchanges that carried no message
	Refused              map[string]map[string]uint64         // refusals, by reason and by who refuses
	SessionsClosed       map[mcp.Cause]uint64
	EventFailures        map[string]uint64 // of the event store, by operation
	StreamsResumed       uint64
	ResponsesExpired     uint64 // stored answers that nobody has fetched; they stay in Stored
	ObserverPanics       uint64 // that were contained where the server reports to telemetry
}

// SeriesCounters are the totals of one method and target. At rest, Admitted is the sum of
// Sent, Stored and all Dropped.
type SeriesCounters struct {
	Method, Target                 string
	Admitted, Sent, Stored, Panics uint64
	Dropped                        map[mcp.DropReason]uint64
	Cancelled, Abandoned           map[mcp.Cause]uint64
	TasksCancelled                 map[mcp.Cause]uint64
}

// oldestAge returns the age of the oldest live request that is no subscription.
func (s *Snapshot) oldestAge() (oldest time.Duration) {
	for i := range s.Requests {
		oldest = max(oldest, s.Requests[i].Age)
	}
	return oldest
}

// sources is a set of sources in the order of their addition.
type sources struct{ all []*Source }

// add adds a source; forget takes it out again.
func (s *sources) add(src Source) (forget func()) {
	added := &src
	s.all = append(s.all, added)
	return func() {
		s.all = slices.DeleteFunc(s.all, func(other *Source) bool { return other == added })
	}
}

func (s *sources) list() []Source {
	list := make([]Source, len(s.all))
	for i, src := range s.all {
		list[i] = *src
	}
	return list
}
