package telemetry

import (
	"context"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
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
	Tasks         []state.Task // running
	// TaskStatus counts the tasks by status, if the server has tasks.
	TaskStatus map[mcp.TaskStatus]int
	// TasksUnstored counts the tasks that have ended and of whose end the store does not know.
	TasksUnstored uint64
	Outbound      []OutboundState
	Sessions      []SessionState
	Readiness     state.Readiness
	Shares        []state.Share
	// Classes are the concurrency classes of the program. Their names are labels.
	Classes    []mcp.ClassState
	RateLimits []state.RateLimit
	// Registrations are the items that were replaced or removed while the server ran, ListChanges the
	// changes that lists show, by kind and then by added, replaced and removed.
	Registrations []state.Registration
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
	// Credentials is the state of files with credentials. They must be those of one source only.
	Credentials struct {
		// Stale has the kinds of files that are configured, such as [CredentialsTLS], and says of each
		// whether the present content is not in use, because it has a mistake or cannot be read.
		Stale map[string]bool
		// CertificateExpiry is the end of validity of the server's certificate; zero without TLS.
		CertificateExpiry time.Time
	}
	// Auth is what the authenticator has counted, if it does that ([auth.Reporter]).
	Auth auth.Stats
	// Events is what the server keeps in memory of the streams of legacy HTTP clients; nil if it keeps none
	// there.
	Events *state.Events
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
	Store *state.Store
	// Saturated is for how long the server has been too full for more requests; 0 if it is not.
	Saturated time.Duration
	Counters  state.Counters

	changes changes.Stats // of telemetry itself
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
	// Origin describes it, in an [Info] without a request. A method EventsHeld() [state.Events] tells what is kept
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

// worse returns the readiness for a page about several servers: that of a server that is not
// ready, if there is one.
func worse(r state.Readiness, than *report.Readiness) *report.Readiness {
	if r.State == "" || than != nil && than.State != session.Ready {
		return than
	}
	return &report.Readiness{State: r.State, Since: r.Since, Why: r.Why}
}
