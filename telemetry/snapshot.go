package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Source is a server that has a live set and counters of its own, such as ours. Other servers
// need only [Telemetry.Begin].
type Source interface {
	// Snapshot returns a consistent snapshot: its numbers agree with each other. It is called for
	// each scrape and each page, and must be safe for concurrent use.
	Snapshot() *Snapshot
}

// A Snapshot has the live set and the counters of a server at one moment.
type Snapshot struct {
	At       time.Time
	Requests []RequestState // without the subscriptions
	// Subscriptions are the open subscriptions.
	Subscriptions []RequestState
	Tasks         []TaskState // running
	// TaskStatus counts the tasks by status, if the server has tasks.
	TaskStatus map[mcp.TaskStatus]int
	// TasksUnstored counts the tasks that have ended and of whose end the store does not know.
	TasksUnstored uint64
	Outbound      []OutboundState
	Sessions      []SessionState
	Readiness     Readiness
	Shares        []ShareState
	// Classes are the concurrency classes of the program. Their names are labels.
	Classes    []mcp.ClassState
	RateLimits []RateLimitState
	// Registrations are the items that were replaced or removed while the server ran, ListChanges the
	// changes that lists show, by kind and then by added, replaced and removed.
	Registrations []RegistrationState
	ListChanges   map[string]map[string]uint64
	// Turns says how often and for how long work has waited for its turn so far, and how many turns were
	// taken away because their work blocked or took long: see docs/limits.md.
	Turns struct {
		Waits  uint64
		Waited time.Duration // all waits together
		Lapsed uint64
	}
	// Audit is the state of the audit's queues. A log must be that of one source only.
	Audit []audit.SinkStats
	// Policy is the state of the file of rules that decide what callers may do, if there is one: new
	// contents that came into use, those that did not, and whether the present content is not in use,
	// because it has a mistake. Limits are those of the rules. The file must be that of one source only.
	Policy struct {
		Loaded, Failed uint64
		Stale          bool
		Limits         []auth.Limit
	}
	// StateKeys is the state of the file of the keys that seal what clients carry, if there is one, as that of
	// Policy.
	StateKeys struct {
		Loaded, Failed uint64
		Stale          bool
	}
	// Auth is what the authenticator has counted, if it does that ([auth.Reporter]).
	Auth auth.Stats
	// Events is what the server keeps in memory of the streams of legacy HTTP clients; nil if it keeps none
	// there.
	Events *EventsHeld
	// Expired are the latest stored answers that no client can fetch any more, oldest first; a source bounds
	// their number. Context has the span of the request. Texts of clients are fit to print.
	Expired []struct {
		Context                                   context.Context
		Method, Target, ID                        string
		Session, Client, ClientVersion, Principal string
		Reason                                    mcp.ExpireReason
		StoredAt, ExpiredAt                       time.Time
	}
	// Streaming are the registered tools whose calls last as long as there is something to tell their
	// clients.
	Streaming []string
	// Store is what the server has of the store that it shares with other replicas; nil if there is none.
	Store *StoreState
	// Saturated is for how long the server has been too full for more requests; 0 if it is not.
	Saturated time.Duration
	Counters  Counters

	changes changes.Stats // of telemetry itself
}

// A StoreState is what a server has of the store that it shares with other replicas.
type StoreState struct {
	Replica string    // the random name of this process among them
	Away    time.Time // since when the store does not answer; zero if it does
	// Operations counts what became of each operation, by operation and outcome, and Took is how long all
	// of them together took that were made.
	Operations map[string]map[string]uint64
	Took       map[string]time.Duration
	// Signals counts signals to and from other replicas by outcome, Missed how often some may have been
	// missed.
	Signals map[string]uint64
	Missed  uint64
	// TasksLost counts the tasks that this replica has ended because theirs was lost.
	TasksLost uint64
	// TasksTakenOver counts those that it has begun again, TasksFenced the ends that it was refused because
	// another replica had begun the task again.
	TasksTakenOver, TasksFenced uint64
	// Fenced counts events that the store has refused, because the end of their stream was another one.
	Fenced uint64
	// Evicts says that the store may delete values before their end.
	Evicts bool
	// Replicas asks all replicas what they say of themselves, and returns the answers that came within a
	// moment. It is safe for concurrent use.
	Replicas func(ctx context.Context) []ReplicaState
}

// A ReplicaState is what one replica says of itself.
type ReplicaState struct {
	Replica  string // its random name
	Host     string // the name of its machine, as the system has it
	Process  int    // id
	Version  string // of the program
	Started  time.Time
	Draining bool
	InFlight int           // requests, with subscriptions
	Sessions int           // that it has objects of
	Tasks    int           // whose handlers run there
	AwayFor  time.Duration // for how long the store has not answered it
}

// A RegistrationState counts the changes of one item.
type RegistrationState struct {
	Kind, Name string
	// Added counts additions after the item was removed, Equal the replacements that lists do not show.
	Added, Replaced, Equal, Removed uint64
	Updated                         uint64 // how often the program has said that the resource has changed, if there may be subscribers
	Last                            time.Time
	Place                           string // the file and line that has made the last change
}

// A ShareState is what callers have of one limit that they share.
type ShareState struct {
	Limit      string // a label
	Size, Used int
	Holding    int    // callers that have something of it
	Waiting    int    // callers that wait for something
	Largest    int    // how much the largest caller holds
	Caller     string // the name of the largest caller; not a label
}

// A RateLimitState describes one rate limit.
type RateLimitState struct {
	Name string // a label
	// Used is the share of its tokens that the emptiest bucket has given, from 0 to 1.
	Used             float64
	Allowed, Refused uint64 // messages since the start
	Buckets          int    // that it holds
	// Local counts those of them that this replica has decided alone, because the store did not answer.
	Local uint64
}

// A RequestState is one request in flight.
type RequestState struct {
	Origin    Origin     // describes the request
	Key       uint64     // names the request, unique in this process; 0: it cannot be named
	Operation *Operation // nil if there is none
	// State is queued, running, blocked (by a question to the client), writing,
	// cancelled, or listening.
	State        string
	In           string // the middleware that the request is in, "handler", or ""
	Age          time.Duration
	Cancelled    *mcp.CancelError // nil if it is not cancelled
	CancelledFor time.Duration
	Abandoned    bool
}

// A TaskState is one handler that runs as a task.
type TaskState struct {
	Tool string // the registered tool
	Name string // the name of the task on pages
	Age  time.Duration
	Left time.Duration // of its time to live; negative after its end
	Run  int           // which run of the handler it is, from 1
	// Status is what its clients are told.
	Status mcp.TaskStatus
	// Principal is the principal of the caller, or nil.
	Principal *auth.Principal
	// Client and ClientVersion are what the client of the call says of itself, fit to print.
	Client, ClientVersion string
	// Cancelled is nil if the task is not cancelled.
	Cancelled    *mcp.CancelError
	CancelledFor time.Duration
	Abandoned    bool
	Span         trace.SpanContext
}

// An OutboundState is a request to a client that is not answered yet.
type OutboundState struct {
	Session   string // its name on pages
	Client    Origin // describes the session, in an [Info] without a request
	ID        mcp.ID
	Method    string
	Age       time.Duration
	For       Origin     // the request that caused it, or nil
	Operation *Operation // of that request, or nil
}

// A SessionState is one open session or connection.
type SessionState struct {
	// Origin describes it, in an [Info] without a request. A method EventsHeld() [EventsHeld] tells what is kept
	// of its streams. It is called when somebody looks at /debug/events.
	Origin    Origin
	Key       uint64 // names the session, unique in this process; 0: it cannot be named
	Transport string // a label
	Age       time.Duration
	Idle      time.Duration // 0 while it is in use
	Requests  int           // in flight
	Streaming bool          // the client listens on the session's own stream
	Stored    int           // answers in the event store that were not sent or fetched
}

// Counters has totals since the start. All keys and names become labels and must be values of
// [Catalogue].
type Counters struct {
	Series               []SeriesCounters
	Received             map[string]uint64 // messages, by kind
	Rejected             map[mcp.RejectReason]uint64
	Ignored              map[mcp.IgnoredKind]map[mcp.IgnoreReason]uint64
	NotificationsDropped map[string]map[mcp.DropReason]uint64 // by method
	NotificationsSent    map[string]uint64                    // by method
	LimitsReached        map[string]uint64                    // by the name of the limit
	HTTPRefused          map[mcp.RefuseReason]uint64          // exchanges without a message
	Refused              map[string]map[string]uint64         // refusals, by reason and by refuser
	Decisions            map[string]map[string]uint64         // of scopes and policies, by rule and by effect
	Foreign              map[string]uint64                    // uses of what belongs to another principal, by its kind
	StreamsExpired       map[string]uint64                    // streams that ended with their token, by their kind
	SessionsClosed       map[mcp.Cause]uint64
	EventFailures        map[string]uint64 // of the event store, by operation
	Displaced            uint64            // requests that lost their place in the queue
	StreamsResumed       uint64
	SessionsAdopted      uint64 // opened from their ids
	// Stored answers that were fetched, and those that no client can fetch any more, by the reason.
	// Stored includes them.
	ResponsesFetched uint64
	ResponsesExpired map[mcp.ExpireReason]uint64
	ObserverPanics   uint64 // contained panics of the observer
}

// SeriesCounters has the totals of one method and target. When no request is in flight, Admitted is
// the sum of Sent, Stored and all Dropped.
type SeriesCounters struct {
	Method, Target                 string
	Admitted, Sent, Stored, Panics uint64
	Dropped                        map[mcp.DropReason]uint64
	Cancelled                      map[CancelledIn]uint64
	Abandoned                      map[mcp.Cause]uint64
	TasksCancelled                 map[mcp.Cause]uint64
}

// A CancelledIn is the cause of a cancellation, and the phase of the request at that moment: queued,
// running, blocked (by a question to the client) or listening.
type CancelledIn struct {
	Cause mcp.Cause
	Phase string
}

// oldestAge returns the age of the oldest request in flight, without subscriptions.
func (s *Snapshot) oldestAge() (oldest time.Duration) {
	for i := range s.Requests {
		oldest = max(oldest, s.Requests[i].Age)
	}
	return oldest
}

// sources is a set of sources in the order of their addition.
type sources struct{ all []*Source }

// add adds a source. remove removes it.
func (s *sources) add(src Source) (remove func()) {
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

// Readiness is the result of the last readiness probe of a server.
type Readiness struct {
	State string    // ready, not_ready or draining; "" before the first probe
	Since time.Time // when the state was found
	Why   string    // the failing checks and their errors
}

// worse returns the readiness for a page about several servers: that of a server that is not
// ready, if there is one.
func (r Readiness) worse(than *report.Readiness) *report.Readiness {
	if r.State == "" || than != nil && than.State != session.Ready {
		return than
	}
	return &report.Readiness{State: r.State, Since: r.Since, Why: r.Why}
}
