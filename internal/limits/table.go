package limits

import (
	"reflect"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/wire"
)

// A Bound describes one field of [Limits].
type Bound struct {
	// Name is the name in errors, metrics, flags and docs/limits.md. It is the name of the
	// field in snake case.
	Name    string
	Default any // int or time.Duration
	// Unit is "bytes", "levels", "requests", ...; "" for durations.
	Unit  string
	Usage string
	// Counted bounds have a series in vitrine_limit_reached_total.
	Counted bool
}

// Int returns the field of a bound that is a number, else nil.
func (b Bound) Int(l *Limits) *int { p, _ := b.field(l).(*int); return p }

// Duration returns the field of a bound that is a duration, else nil.
func (b Bound) Duration(l *Limits) *time.Duration { p, _ := b.field(l).(*time.Duration); return p }

// field returns a pointer to the field of a bound.
func (b Bound) field(l *Limits) any {
	name := strings.ReplaceAll(b.Name, "_", "")
	return reflect.ValueOf(l).Elem().FieldByNameFunc(func(field string) bool {
		return strings.EqualFold(field, name)
	}).Addr().Interface()
}

// The names of the limits that are counted when they are reached.
const (
	NameFrameBytes            = "max_frame_bytes"
	NameDepth                 = "max_depth"
	NameBatch                 = "max_batch"
	NameMemory                = "max_memory"
	NameReservedBytes         = "reserved_bytes"
	NameInFlight              = "max_in_flight"
	NameInFlightTotal         = "max_in_flight_total"
	NameInFlightControl       = "max_in_flight_control"
	NameQueue                 = "max_queue"
	NameTurns                 = "max_turns"
	NameQueueSession          = "max_queue_per_session"
	NameQueueWait             = "max_queue_wait"
	NameUnread                = "max_unread"
	NameConnections           = "max_connections"
	NameHeaders               = "max_headers"
	NameSessions              = "max_sessions"
	NameDeletedSessions       = "max_deleted_sessions"
	NameClientBytes           = "max_client_bytes"
	NameSubscriptions         = "max_subscriptions"
	NameSubscribedBytes       = "max_subscribed_bytes"
	NamePendingSignals        = "max_pending_signals"
	NameOutbound              = "max_outbound"
	NameQueuedMessages        = "max_queued_messages"
	NameQueuedBytes           = "max_queued_bytes"
	NameQueuedBytesTotal      = "max_queued_bytes_total"
	NameEvents                = "max_events"
	NameEventBytes            = "max_event_bytes"
	NameBodyBytes             = "max_body_bytes_pending"
	NameInputRounds           = "max_input_rounds"
	NameStateBytes            = "max_state_bytes"
	NameValidationSteps       = "max_validation_steps"
	NameValidationBytes       = "max_validation_bytes"
	NameArgumentBytes         = "max_argument_bytes"
	NameArgumentBytesTotal    = "max_argument_bytes_total"
	NameRunningTasks          = "max_running_tasks"
	NameTasks                 = "max_tasks"
	NameTasksPrincipal        = "max_tasks_per_principal"
	NameTaskBytes             = "max_task_bytes"
	NameTaskRuns              = "max_task_runs"
	NameAdminRequests         = "max_admin_requests"
	NameProfiles              = "max_profiles"
	NameProfileTime           = "max_profile_time"
	NameMalformed             = "max_consecutive_malformed"
	NameRequestTimeout        = "request_timeout"
	NameEventBytesTotal       = "max_event_bytes_total"
	NameMaxRequestTimeout     = "max_request_timeout"
	NameResourceSubscriptions = "max_resource_subscriptions"
	NamePendingUpdates        = "max_pending_updates"
	NameListChanges           = "max_list_changes"
	NameTaskTTL               = "task_ttl"
	NameMaxTaskTTL            = "max_task_ttl"
	NameBodyTimeout           = "body_timeout"
	NameWriteTimeout          = "write_timeout"
	NameNotifyTimeout         = "notify_timeout"
	NameEventTimeout          = "event_timeout"
	NameRateBuckets           = "max_rate_buckets"
)

// NameRates counts what the rate limits of the program have refused. They have names of their own.
const NameRates = "rate_limits"

// All returns all limits, in the order of docs/limits.md. The caller must not change them.
func All() []Bound { return table }

// Names returns the names of all limits that are counted when they are reached, and [NameRates].
func Names() (names []string) {
	for _, b := range table {
		if b.Counted {
			names = append(names, b.Name)
		}
	}
	return append(names, NameRates)
}

var wireLimits = wire.DefaultLimits()

var table = []Bound{
	{NameMemory, 0, "bytes", "memory of the process, from which max_frame_bytes and all limits that bound memory follow, in bytes and in numbers, unless they are set; 0 is three quarters of what its container may use", false},
	{NameReservedBytes, 0, "bytes", "part of max_memory that the limits leave to what else the program keeps, such as its caches. Package service adds what the audit, verified tokens, signals to other replicas and the flight recorder may take", false},
	{NameFrameBytes, wireLimits.MaxBytes, "bytes", "size of one message", true},
	{NameDepth, wireLimits.MaxDepth, "levels", "nesting of one message", true},
	{NameBatch, wireLimits.MaxBatch, "messages", "length of one JSON-RPC batch", true},
	{NameInFlight, 256, "requests", "handlers that run at once in one session", true},
	{NameInFlightTotal, 4096, "requests", "handlers that run at once in the process", false},
	{"max_in_flight_per_caller", 0, "requests", "handlers that run at once for one caller; 0 is no bound of its own", false},
	{NameInFlightControl, 256, "requests", "requests about connections that are served at once: initialize, ping, server/discover, tasks/cancel", false},
	{NameQueue, 4096, "requests", "requests that wait for a slot", true},
	{NameQueueSession, 1024, "requests", "requests of one session that wait for a slot", true},
	{NameQueueWait, 50, "percent", "part of the time until its deadline for which a request may have waited when it gets its slot; if others wait for that, too, it is refused, and the next one gets it; 100 is no bound", true},
	{NameTurns, 0, "turns", "messages that are decoded and admitted, and large answers that are encoded, at once; callers take turns; 0 is the number of processors that the Go runtime uses (GOMAXPROCS), and one less while several callers want one", true},
	{NameUnread, 16_384, "exchanges", "modern HTTP exchanges whose answer waits for its reader", true},
	{NameConnections, 16_384, "connections", "connections of the MCP listener, and requests of HTTP/2, each of which counts as one more", true},
	{NameHeaders, 100, "lines", "header of one HTTP request", true},
	{NameSessions, 10_000, "sessions", "legacy HTTP sessions", true},
	{NameDeletedSessions, 20_000, "sessions", "deleted sessions with sealed ids that are remembered, so that their ids open none again", true},
	{NameClientBytes, 16 << 10, "bytes", "what a client says of itself, its name, icons and capabilities: the JSON of it in a request of the modern era, and the memory that a legacy session keeps of it", true},
	{NameSubscriptions, 10_000, "subscriptions", "open subscriptions of the process", true},
	{NameResourceSubscriptions, 1000, "resources", "resources that one subscription or legacy session is about", true},
	{NameSubscribedBytes, 64 << 20, "bytes", "what subscriptions and legacy sessions are about: 512 bytes and the name for each resource and task; callers share them", true},
	{NamePendingUpdates, 256, "updates", "what waits for one subscriber: parts of updated resources, then the whole is reported; own notifications, then they are dropped", true},
	{NameListChanges, 30, "changes", "replaced and removed items of one kind, or changes of the policies, in a minute; more are a warning in the log, and nothing else", true},
	{NamePendingSignals, 1024, "signals", "signals to other replicas that are on their way to the store, one more for each 16 KiB; callers share them. A quarter as many more may wait to be published again", true},
	{NameOutbound, 64, "requests", "requests to one client that it has not answered", true},
	{NameQueuedMessages, 1024, "messages", "messages that wait for the writer of one stream", true},
	{NameQueuedBytes, 16 << 20, "bytes", "bytes that wait for the writer of one stream", true},
	{NameQueuedBytesTotal, 128 << 20, "bytes", "bytes that wait for the writers of the process; callers share them", true},
	{NameEvents, 1000, "events", "events kept for one session, to resume its streams", true},
	{NameEventBytes, 8 << 20, "bytes", "bytes of events kept for one session", true},
	{NameEventBytesTotal, 64 << 20, "bytes", "bytes of events kept in the process", true},
	{NameBodyBytes, 256 << 20, "bytes", "messages, and headers of HTTP requests, of more than 4 KiB that arrive or are being served; callers share them", true},
	{NameInputRounds, 32, "rounds", "questions of one request to its client, one after the other", true},
	{NameStateBytes, 256 << 10, "bytes", "what a request keeps from one round of questions to the next", true},
	{NameValidationSteps, 12 << 20, "steps", "validation of one value of 3 MiB or more; a smaller one may take its share, at least 1/768; a step is about a keyword applied to a value, or 10 ns", true},
	{NameValidationBytes, 16 << 20, "bytes", "values of more than 64 KiB that are validated at once in the process; others wait", true},
	{NameArgumentBytes, 48 << 20, "bytes", "memory that the decoded arguments of one call, or of all calls of a batch, take, or other params or answers that become a Go value, as estimated before they are decoded", true},
	{NameArgumentBytesTotal, 256 << 20, "bytes", "memory that the Go values of arguments, params and answers take together while their handlers run, without those that are estimated at 4 KiB or less; callers share it", true},
	{NameRunningTasks, 4096, "tasks", "handlers of the process that run as tasks", true},
	{NameTasks, 10_000, "tasks", "tasks that are kept in memory, running or ended", true},
	{NameTasksPrincipal, 1000, "tasks", "tasks of one principal, or of one address without a principal, that are kept in memory", true},
	{NameTaskBytes, 64 << 20, "bytes", "size of the tasks that are kept in memory", true},
	{NameTaskRuns, 3, "runs", "runs of one restartable task whose replicas are lost one after the other", true},
	{NameAdminRequests, 64, "requests", "requests that the admin listener works on at once, beside probes, scrapes and live streams", true},
	{NameProfiles, 1, "profiles", "profiles and traces of the runtime that the admin listener takes at once", true},
	{NameRateBuckets, 10_000, "buckets", "callers (or other values) that the rate limits tell apart, all together; then those that were not seen for longest are forgotten", true},
	{NameMalformed, 100, "frames", "malformed frames in a row before a byte stream is closed", true},
	{NameRequestTimeout, time.Minute, "", "deadline of a request whose route sets none", true},
	{NameMaxRequestTimeout, 15 * time.Minute, "", "longest deadline of any request", true},
	{NameBodyTimeout, 30 * time.Second, "", "arrival of one HTTP body", true},
	{NameWriteTimeout, 30 * time.Second, "", "one write to a peer that does not read", true},
	{NameNotifyTimeout, time.Second, "", "wait of a notification for room in the queue", true},
	{NameEventTimeout, time.Second, "", "one operation of the event store", true},
	{"store_timeout", 250 * time.Millisecond, "", "one operation of the store that replicas share", false},
	{NameProfileTime, time.Minute, "", "length of one profile or trace of the runtime", true},
	{"courtesy_timeout", time.Second, "", "telling a client that its answer is not wanted any more", false},
	{"keep_alive", 15 * time.Second, "", "silence of an HTTP exchange before a sign of life", false},
	{"orphan_grace", 30 * time.Second, "", "life of a legacy request without its HTTP exchange; negative is its deadline", false},
	{"eof_grace", time.Second, "", "life of handlers after the peer has closed its side; negative is none", false},
	{"cleanup_grace", 500 * time.Millisecond, "", "time for cancelled handlers to return before a teardown goes on", false},
	{"hook_grace", 5 * time.Second, "", "time for the stop hooks, after the drain", false},
	{"abandon_grace", 10 * time.Second, "", "time for a cancelled handler to return before it counts as abandoned", false},
	{"saturation_grace", 5 * time.Second, "", "how long all slots are held and the queue is full before the server is not ready; negative is for ever", false},
	{"session_idle", 30 * time.Minute, "", "life of a legacy HTTP session without requests and streams", false},
	{"session_life", 24 * time.Hour, "", "life of a sealed session id, whatever its client does", false},
	{"ping_interval", time.Duration(0), "", "between pings of a legacy HTTP client that keeps a stream open; 0 is never", false},
	{"ping_misses", 3, "pings", "pings in a row without an answer before the session is ended", false},
	{NameTaskTTL, time.Hour, "", "life of a task that sets none, from its creation", true},
	{NameMaxTaskTTL, 24 * time.Hour, "", "longest life of any task", true},
	{"task_grace", 5 * time.Minute, "", "how long the end of a task can be read at least", false},
	{"state_ttl", 15 * time.Minute, "", "life of the state that a modern client carries between two rounds", false},
	{"initialize_timeout", time.Minute, "", "life of a legacy HTTP session that does not finish its handshake", false},
}
