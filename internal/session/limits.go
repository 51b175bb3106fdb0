package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/wire"
)

// Limits are the bounds of the core. server.Limits has the same fields, with what they
// mean, and is converted to this type: the compiler holds the two together. The zero value
// of a field means its default; [Bounds] has them all.
type Limits struct {
	MaxFrameBytes            int
	MaxDepth                 int
	MaxBatch                 int
	MaxInFlight              int
	MaxInFlightTotal         int
	MaxQueue                 int
	MaxQueuePerSession       int
	MaxUnread                int
	MaxSessions              int
	MaxSubscriptions         int
	MaxResourceSubscriptions int
	MaxPendingUpdates        int
	MaxOutbound              int
	MaxQueuedMessages        int
	MaxQueuedBytes           int
	MaxEvents                int
	MaxEventBytes            int
	MaxEventBytesTotal       int
	MaxBodyBytesPending      int
	MaxInputRounds           int
	MaxStateBytes            int
	MaxRunningTasks          int
	MaxTasks                 int
	MaxTasksPerPrincipal     int
	MaxTaskBytes             int
	MaxAdminRequests         int
	MaxConsecutiveMalformed  int

	RequestTimeout    time.Duration
	MaxRequestTimeout time.Duration
	BodyTimeout       time.Duration
	WriteTimeout      time.Duration
	NotifyTimeout     time.Duration
	CourtesyTimeout   time.Duration
	EventTimeout      time.Duration
	KeepAlive         time.Duration
	OrphanGrace       time.Duration
	EOFGrace          time.Duration
	CleanupGrace      time.Duration
	HookGrace         time.Duration
	AbandonGrace      time.Duration
	SessionIdle       time.Duration
	PingInterval      time.Duration
	PingMisses        int
	TaskTTL           time.Duration
	MaxTaskTTL        time.Duration
	TaskGrace         time.Duration
	StateTTL          time.Duration
	InitializeTimeout time.Duration
}

// A Bound describes one field of [Limits]: its name in errors, metrics, flags and
// docs/limits.md, its default, and what it bounds.
type Bound struct {
	Name    string
	Default any // int or time.Duration
	// Unit is "bytes", "levels", "requests", ...; "" for durations.
	Unit  string
	Usage string
	// Counted bounds have a series in vitrine_limit_reached_total.
	Counted bool
	field   func(*Limits) any // *int or *time.Duration
}

// Int returns the field of a bound that is a number, else nil.
func (b Bound) Int(l *Limits) *int { p, _ := b.field(l).(*int); return p }

// Duration returns the field of a bound that is a time, else nil.
func (b Bound) Duration(l *Limits) *time.Duration { p, _ := b.field(l).(*time.Duration); return p }

// The names of the limits that are counted when they are reached.
const (
	LimitFrameBytes     = "max_frame_bytes"
	LimitDepth          = "max_depth"
	LimitBatch          = "max_batch"
	LimitInFlight       = "max_in_flight"
	LimitQueue          = "max_queue"
	LimitQueueSession   = "max_queue_per_session"
	LimitUnread         = "max_unread"
	LimitSessions       = "max_sessions"
	LimitSubscriptions  = "max_subscriptions"
	LimitOutbound       = "max_outbound"
	LimitQueuedMessages = "max_queued_messages"
	LimitQueuedBytes    = "max_queued_bytes"
	LimitEvents         = "max_events"
	LimitEventBytes     = "max_event_bytes"
	LimitBodyBytes      = "max_body_bytes_pending"
	LimitInputRounds    = "max_input_rounds"
	LimitStateBytes     = "max_state_bytes"
	LimitRunningTasks   = "max_running_tasks"
	LimitTasks          = "max_tasks"
	LimitTasksPrincipal = "max_tasks_per_principal"
	LimitTaskBytes      = "max_task_bytes"
	LimitAdminRequests  = "max_admin_requests"
	LimitMalformed      = "max_consecutive_malformed"
	LimitRequestTimeout = "request_timeout"

	LimitEventBytesTotal       = "max_event_bytes_total"
	LimitMaxRequestTimeout     = "max_request_timeout"
	LimitResourceSubscriptions = "max_resource_subscriptions"
	LimitPendingUpdates        = "max_pending_updates"

	LimitTaskTTL    = "task_ttl"
	LimitMaxTaskTTL = "max_task_ttl"

	LimitBodyTimeout   = "body_timeout"
	LimitWriteTimeout  = "write_timeout"
	LimitNotifyTimeout = "notify_timeout"
	LimitEventTimeout  = "event_timeout"
)

// Bounds is the one table of all limits, graces and time-outs of the core.
func Bounds() []Bound {
	wl := wire.DefaultLimits()
	return []Bound{
		{LimitFrameBytes, wl.MaxBytes, "bytes", "size of one message", true,
			func(l *Limits) any { return &l.MaxFrameBytes }},
		{LimitDepth, wl.MaxDepth, "levels", "nesting of one message", true,
			func(l *Limits) any { return &l.MaxDepth }},
		{LimitBatch, wl.MaxBatch, "messages", "length of one JSON-RPC batch", true,
			func(l *Limits) any { return &l.MaxBatch }},
		{LimitInFlight, 256, "requests", "handlers that run at once in one session", true,
			func(l *Limits) any { return &l.MaxInFlight }},
		{"max_in_flight_total", 4096, "requests", "handlers that run at once in the process", false,
			func(l *Limits) any { return &l.MaxInFlightTotal }},
		{LimitQueue, 4096, "requests", "requests that wait for a slot", true,
			func(l *Limits) any { return &l.MaxQueue }},
		{LimitQueueSession, 1024, "requests", "requests of one session that wait for a slot", true,
			func(l *Limits) any { return &l.MaxQueuePerSession }},
		{LimitUnread, 16_384, "exchanges", "modern HTTP exchanges whose answer waits for its reader", true,
			func(l *Limits) any { return &l.MaxUnread }},
		{LimitSessions, 10_000, "sessions", "legacy HTTP sessions", true,
			func(l *Limits) any { return &l.MaxSessions }},
		{LimitSubscriptions, 10_000, "subscriptions", "open subscriptions of the process", true,
			func(l *Limits) any { return &l.MaxSubscriptions }},
		{LimitResourceSubscriptions, 1000, "resources", "resources that one subscription or legacy session is about", true,
			func(l *Limits) any { return &l.MaxResourceSubscriptions }},
		{LimitPendingUpdates, 256, "updates", "what waits for one subscriber: parts of updated resources, then the whole is reported; own notifications, then they are dropped", true,
			func(l *Limits) any { return &l.MaxPendingUpdates }},
		{LimitOutbound, 64, "requests", "requests to one client that it has not answered", true,
			func(l *Limits) any { return &l.MaxOutbound }},
		{LimitQueuedMessages, 1024, "messages", "messages that wait for the writer of one stream", true,
			func(l *Limits) any { return &l.MaxQueuedMessages }},
		{LimitQueuedBytes, 16 << 20, "bytes", "bytes that wait for the writer of one stream", true,
			func(l *Limits) any { return &l.MaxQueuedBytes }},
		{LimitEvents, 1000, "events", "events kept for one session, to resume its streams", true,
			func(l *Limits) any { return &l.MaxEvents }},
		{LimitEventBytes, 8 << 20, "bytes", "bytes of events kept for one session", true,
			func(l *Limits) any { return &l.MaxEventBytes }},
		{LimitEventBytesTotal, 64 << 20, "bytes", "bytes of events kept in the process", true,
			func(l *Limits) any { return &l.MaxEventBytesTotal }},
		{LimitBodyBytes, 256 << 20, "bytes", "HTTP bodies of the process that have not arrived yet", true,
			func(l *Limits) any { return &l.MaxBodyBytesPending }},
		{LimitInputRounds, 32, "rounds", "questions of one request to its client, one after the other", true,
			func(l *Limits) any { return &l.MaxInputRounds }},
		{LimitStateBytes, 256 << 10, "bytes", "what a request keeps from one round of questions to the next", true,
			func(l *Limits) any { return &l.MaxStateBytes }},
		{LimitRunningTasks, 4096, "tasks", "handlers of the process that run as tasks", true,
			func(l *Limits) any { return &l.MaxRunningTasks }},
		{LimitTasks, 10_000, "tasks", "tasks that are kept in memory, running or ended", true,
			func(l *Limits) any { return &l.MaxTasks }},
		{LimitTasksPrincipal, 1000, "tasks", "tasks of one principal that are kept in memory", true,
			func(l *Limits) any { return &l.MaxTasksPerPrincipal }},
		{LimitTaskBytes, 64 << 20, "bytes", "size of the tasks that are kept in memory", true,
			func(l *Limits) any { return &l.MaxTaskBytes }},
		{LimitAdminRequests, 64, "requests", "requests that the admin listener works on at once, beside probes, scrapes and live streams", true,
			func(l *Limits) any { return &l.MaxAdminRequests }},
		{LimitMalformed, 100, "frames", "malformed frames in a row before a byte stream is closed", true,
			func(l *Limits) any { return &l.MaxConsecutiveMalformed }},
		{LimitRequestTimeout, time.Minute, "", "deadline of a request whose route sets none", true,
			func(l *Limits) any { return &l.RequestTimeout }},
		{LimitMaxRequestTimeout, 15 * time.Minute, "", "longest deadline of any request", true,
			func(l *Limits) any { return &l.MaxRequestTimeout }},
		{LimitBodyTimeout, 30 * time.Second, "", "arrival of one HTTP body", true,
			func(l *Limits) any { return &l.BodyTimeout }},
		{LimitWriteTimeout, 30 * time.Second, "", "one write to a peer that does not read", true,
			func(l *Limits) any { return &l.WriteTimeout }},
		{LimitNotifyTimeout, time.Second, "", "wait of a notification for room in the queue", true,
			func(l *Limits) any { return &l.NotifyTimeout }},
		{LimitEventTimeout, time.Second, "", "one operation of the event store", true,
			func(l *Limits) any { return &l.EventTimeout }},
		{"courtesy_timeout", time.Second, "", "telling a client that its answer is not wanted any more", false,
			func(l *Limits) any { return &l.CourtesyTimeout }},
		{"keep_alive", 15 * time.Second, "", "silence of an HTTP exchange before a sign of life", false,
			func(l *Limits) any { return &l.KeepAlive }},
		{"orphan_grace", time.Duration(0), "", "life of a legacy request without its HTTP exchange; 0 is its deadline", false,
			func(l *Limits) any { return &l.OrphanGrace }},
		{"eof_grace", time.Second, "", "life of handlers after the peer has closed its side; negative is none", false,
			func(l *Limits) any { return &l.EOFGrace }},
		{"cleanup_grace", 500 * time.Millisecond, "", "time for cancelled handlers to return before a teardown goes on", false,
			func(l *Limits) any { return &l.CleanupGrace }},
		{"hook_grace", 5 * time.Second, "", "time for the stop hooks, after the drain", false,
			func(l *Limits) any { return &l.HookGrace }},
		{"abandon_grace", 10 * time.Second, "", "time for a cancelled handler to return before it counts as abandoned", false,
			func(l *Limits) any { return &l.AbandonGrace }},
		{"session_idle", 30 * time.Minute, "", "life of a legacy HTTP session without requests and streams", false,
			func(l *Limits) any { return &l.SessionIdle }},
		{"ping_interval", time.Duration(0), "", "between pings of a legacy HTTP client that keeps a stream open; 0 is never", false,
			func(l *Limits) any { return &l.PingInterval }},
		{"ping_misses", 3, "pings", "pings in a row without an answer before the session is ended", false,
			func(l *Limits) any { return &l.PingMisses }},
		{LimitTaskTTL, time.Hour, "", "life of a task that sets none, from its creation", true,
			func(l *Limits) any { return &l.TaskTTL }},
		{LimitMaxTaskTTL, 24 * time.Hour, "", "longest life of any task", true,
			func(l *Limits) any { return &l.MaxTaskTTL }},
		{"task_grace", 5 * time.Minute, "", "how long the end of a task can be read at least", false,
			func(l *Limits) any { return &l.TaskGrace }},
		{"state_ttl", 15 * time.Minute, "", "life of the state that a modern client carries between two rounds", false,
			func(l *Limits) any { return &l.StateTTL }},
		{"initialize_timeout", time.Minute, "", "life of a legacy HTTP session that does not finish its handshake", false,
			func(l *Limits) any { return &l.InitializeTimeout }},
	}
}

// LimitNames lists the names of all limits that are counted when they are reached.
func LimitNames() (names []string) {
	for _, b := range Bounds() {
		if b.Counted {
			names = append(names, b.Name)
		}
	}
	return names
}

// LimitReached counts that a limit was reached which the core does not watch itself;
// name is one of [LimitNames].
func (c *Core) LimitReached(name string) { c.ledger.limitReached(name) }

// withDefaults fills in the fields that are zero.
func (l Limits) withDefaults() Limits {
	for _, b := range Bounds() {
		switch field := b.field(&l).(type) {
		case *int:
			if *field == 0 {
				*field = b.Default.(int)
			}
		case *time.Duration:
			if *field == 0 {
				*field = b.Default.(time.Duration)
			}
		}
	}
	return l
}

// Check returns what is wrong with the limits: no limit is negative, except for the
// end-of-file grace.
func (l Limits) Check() error {
	var errs []error
	for _, b := range Bounds() {
		if p := b.Int(&l); p != nil && *p < 0 {
			errs = append(errs, fmt.Errorf("limit %s must not be negative, and is %d", b.Name, *p))
		}
		if p := b.Duration(&l); p != nil && *p < 0 && p != &l.EOFGrace {
			errs = append(errs, fmt.Errorf("limit %s must not be negative, and is %v", b.Name, *p))
		}
	}
	return errors.Join(errs...)
}

// Wire returns the limits of the envelope codec.
func (l Limits) Wire() wire.Limits {
	return wire.Limits{MaxBytes: l.MaxFrameBytes, MaxDepth: l.MaxDepth, MaxBatch: l.MaxBatch}
}

// deadline returns how long a request of the route may take, and the name of the
// limit that says so; "" if it is the route's own.
func (l Limits) deadline(rt *Route) (d time.Duration, limit string) {
	d = rt.Deadline
	if d == 0 {
		d, limit = l.RequestTimeout, LimitRequestTimeout
	}
	if d > l.MaxRequestTimeout {
		d, limit = l.MaxRequestTimeout, LimitMaxRequestTimeout
	}
	return d, limit
}
