// Package state has what a server reports of itself beside its requests and sessions: totals, tasks, limits, rate limits, registered
// items, and the store that it shares with other replicas. Package telemetry makes metrics and pages of it. A program needs this package
// only if it has a Source of its own for package telemetry, or a page of its own limits.
package state

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Store is what a server has of the store that it shares with other replicas.
type Store struct {
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
	Replicas func(ctx context.Context) []Replica
}

// A Replica is what one replica says of itself.
type Replica struct {
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

// A Registration counts the changes of one item.
type Registration struct {
	Kind, Name string
	// Added counts additions after the item was removed, Equal the replacements that lists do not show.
	Added, Replaced, Equal, Removed uint64
	Updated                         uint64 // how often the program has said that the resource has changed, if there may be subscribers
	Last                            time.Time
	Place                           string // the file and line that has made the last change
}

// A Share is what callers have of one limit that they share.
type Share struct {
	Limit      string // a label
	Size, Used int
	Holding    int    // callers that have something of it
	Waiting    int    // callers that wait for something
	Largest    int    // how much the largest caller holds
	Caller     string // the name of the largest caller; not a label
}

// A RateLimit describes one rate limit.
type RateLimit struct {
	Name string // a label
	// Used is the share of its tokens that the emptiest bucket has given, from 0 to 1.
	Used             float64
	Allowed, Refused uint64 // messages since the start
	Buckets          int    // that it holds
	// Local counts those of them that this replica has decided alone, because the store did not answer.
	Local uint64
}

// A Task is one handler that runs as a task.
type Task struct {
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

// Counters has totals since the start. All keys and names become labels and must be values of
// Catalogue in package telemetry.
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

// Readiness is the result of the last readiness probe of a server.
type Readiness struct {
	State string    // ready, not_ready or draining; "" before the first probe
	Since time.Time // when the state was found
	Why   string    // the failing checks and their errors
}

// Events are the events of legacy HTTP streams that a server keeps in memory, of one session or of all.
type Events struct {
	// Streams is not known of all sessions together, and 0 then.
	Bytes, Events, Streams int
	Oldest                 time.Time // when the oldest event was stored; zero if there is none
}

// A Limit is a limit as it was configured.
type Limit struct {
	Name           string
	Value, Default float64 // in force, and if nothing is set; seconds for times
	From           string  // set, max_memory or default
	Unit           string
	Flag, Env      string // that set it
	About          string // what it bounds
	Counted        bool   // it is counted how often it is reached
}
