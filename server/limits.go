package server

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// Limits are the bounds, graces and time-outs of a server. A field that is zero stands for
// its default. docs/limits.md has all of them by the names that errors, metrics and flags
// use.
type Limits struct {
	// MaxMemory is the memory that the process may take. Limits that bound memory and are zero
	// follow from it; docs/limits.md has the sum. 0 is no such figure, and in a program that
	// package service runs, three quarters of what its container may use.
	MaxMemory int
	// ReservedBytes is the part of MaxMemory that the limits leave to what else the program keeps (default 0): its
	// own caches, the queues of an audit ([audit.Log.MaxBytes]), tokens that an authenticator remembers
	// (MaxBytes of a resource server of package oauth). Package service adds what it makes itself needs, as
	// much as fits.
	ReservedBytes int
	// MaxFrameBytes bounds one message (default 4 MiB), MaxDepth its nesting (default 64).
	MaxFrameBytes int
	MaxDepth      int
	// MaxBatch bounds the messages of one JSON-RPC batch (default 100), which only
	// clients of revision 2025-03-26 may send.
	MaxBatch int
	// MaxInFlight bounds the running handlers of one session (default 256);
	// MaxInFlightTotal those of the process (default 4096).
	MaxInFlight      int
	MaxInFlightTotal int
	// MaxInFlightPerCaller bounds the handlers that run at once for one caller: a principal, or
	// an address where there is none (default: no bound but a fair share of MaxInFlightTotal).
	// Further requests of the caller wait, and those of others do not wait behind them.
	MaxInFlightPerCaller int
	// MaxInFlightControl bounds the requests about connections that the process serves at
	// once: initialize, ping, server/discover and tasks/cancel (default 256). They need no slot
	// of another kind, so that a server that is full still answers them.
	MaxInFlightControl int
	// MaxQueue bounds the requests of the process that wait for a slot (default 4096);
	// MaxQueuePerSession those of one session, so that no session takes the whole queue
	// (default 1024).
	MaxQueue           int
	MaxQueuePerSession int
	// MaxQueueWait is the part of the time until its deadline for which a request may have waited
	// when it gets its slot, in percent (default 50; 100: no bound). If others wait for a slot as
	// well, it is refused then, so that the handlers that run have time to end.
	MaxQueueWait int
	// MaxTurns bounds how many goroutines do work that takes processor time for callers at once: a
	// message is decoded and admitted, a large answer is encoded (default: GOMAXPROCS, and one less while
	// several callers want one). The callers take turns, so that one with many connections has no more
	// of the processors than another one. Handlers need no turn. A message that has waited for RequestTimeout is refused.
	MaxTurns int
	// MaxUnread bounds the modern HTTP exchanges of the process whose answer waits for
	// its reader (default 16 384). They hold no slot any more.
	MaxUnread int
	// MaxConnections bounds the connections of the MCP listener of package service (default
	// 16 384).
	MaxConnections int
	// MaxHeaders bounds the lines of the header of one HTTP request (default 100). A line of a few
	// bytes takes a hundred in memory.
	MaxHeaders int
	// MaxSessions bounds the legacy sessions (default 10 000).
	MaxSessions int
	// MaxDeletedSessions bounds the deleted sessions with sealed ids that are remembered until their ids
	// end (default 20,000). Beyond it the oldest ones are forgotten of the caller that has deleted the
	// most: their ids would open a session again.
	MaxDeletedSessions int
	// MaxClientBytes bounds what a client says of itself, its name, icons and capabilities (default
	// 16 KiB): the JSON of it in a request of the modern era, and the memory that a session of the legacy era
	// keeps of it. Such a session keeps no icons if they do not fit.
	MaxClientBytes int
	// MaxPendingSignals bounds the signals to other replicas that are on their way to the store (default
	// 1024), and StoreTimeout one operation of the store (default 250 ms). See [WithStore].
	MaxPendingSignals int
	StoreTimeout      time.Duration
	// MaxSubscriptions bounds the open subscriptions of the process (default 10 000: over
	// HTTP each is a connection of its own). MaxResourceSubscriptions bounds the resources
	// of one of them, or of one legacy session (default 1000), and MaxSubscribedBytes what all of them
	// take, each 512 bytes and its URI (default 64 MiB; callers share it). MaxPendingUpdates bounds the
	// updates of parts of these resources that wait for the writer of one of them (default
	// 256); beyond that the client gets an update of the whole resource.
	MaxSubscriptions         int
	MaxResourceSubscriptions int
	MaxSubscribedBytes       int
	MaxPendingUpdates        int
	// MaxListChanges is how many replaced and removed items of one kind, or changes of the policies, in a
	// minute are usual (default 30). More are logged as registration.storm. They are not refused.
	MaxListChanges int
	// MaxOutbound bounds the server-to-client requests pending in one session (default 64).
	MaxOutbound int
	// MaxQueuedMessages and MaxQueuedBytes bound what waits on one stream for its
	// writer (default 1024 messages, 16 MiB). Answers are always queued, but a byte
	// stream with more bytes than that admits no further request. Rejections may take
	// as many bytes again, and then the reader waits.
	MaxQueuedMessages int
	MaxQueuedBytes    int
	// MaxQueuedBytesTotal bounds what waits on all streams of the process (default 128 MiB).
	// Callers share it: over the bound the streams of the caller with the most are ended so that
	// others have room. A result that finds no room becomes an error.
	MaxQueuedBytesTotal int
	// MaxEvents and MaxEventBytes bound what the event store in memory keeps for one
	// legacy session so that its streams can be resumed (default 1000 events, 8 MiB),
	// MaxEventBytesTotal what it keeps in all (default 64 MiB). The oldest events of the caller
	// with the most bytes are removed.
	MaxEvents          int
	MaxEventBytes      int
	MaxEventBytesTotal int
	// MaxBodyBytesPending bounds the messages, and the headers of HTTP requests, that arrive or are being
	// served (default 256 MiB). Those of up to 4 KiB do not count.
	MaxBodyBytesPending int
	// MaxInputRounds bounds how often one request asks the client for input (default 32). Three
	// malformed answers to one question, one after the other, end the request before that.
	// MaxStateBytes bounds what it keeps from one round to the next: for a modern client the
	// state as it is written, for a legacy one the answers (default 256 KiB).
	MaxInputRounds int
	MaxStateBytes  int
	// MaxValidationSteps bounds the validation of one value (default 12 582 912). A step is about a
	// keyword that is applied to a value, or 10 ns. A value of 3 MiB or more may take all of them, a
	// smaller one its share, but at least 1/768. [Tool].ValidationSteps is for one tool.
	// MaxValidationBytes bounds the values of more than 64 KiB that are validated at once in the
	// process (default 16 MiB): others wait.
	// MaxArgumentBytes bounds the memory that the Go value takes into which the arguments of one call, or what a
	// client answers to one question, are decoded (default 48 MiB). It is estimated from the text and the type, before
	// decoding. Texts of 1 MiB or more may take all of it, smaller ones their share, but at least 1/16.
	MaxValidationSteps int
	MaxValidationBytes int
	MaxArgumentBytes   int
	// MaxArgumentBytesTotal bounds what the Go values of all calls take whose handlers run (default 256 MiB).
	// Values of answers to questions count too, and values whose estimate is up to 4 KiB do not. One caller gets three
	// quarters at most, so that this bounds one value too. A call for which there is no room is refused.
	MaxArgumentBytesTotal int
	// MaxRunningTasks bounds the handlers of the process that run as tasks (default
	// 4096). MaxTasks bounds the tasks that the store in memory keeps, running or ended
	// (default 10 000), MaxTasksPerPrincipal those of one principal, or of one address where there
	// is none (default 1000), and MaxTaskBytes their size (default 64 MiB). To make room, ended
	// tasks are removed early, the oldest of the caller with the most bytes first.
	MaxRunningTasks      int
	MaxTasks             int
	MaxTasksPerPrincipal int
	MaxTaskBytes         int
	// MaxTaskRuns bounds how often the handler of a task begins in all if its tool is restartable and its
	// replicas are lost one after the other (default 3). 1 is never again.
	MaxTaskRuns int
	// MaxAdminRequests bounds the requests that an admin listener of package service works
	// on at once (default 64), beside those that have a bound of their own and the probes.
	// MaxProfiles bounds the profiles that it takes at once (default 1), MaxProfileTime the
	// length of each (default 1 min).
	MaxAdminRequests int
	MaxProfiles      int
	MaxProfileTime   time.Duration
	// MaxRateBuckets bounds the buckets of all rate limits (default 10 000): a bucket for each caller,
	// or for each value of what a limit is per. Full buckets that nobody uses go first.
	MaxRateBuckets int
	// MaxConsecutiveMalformed closes a byte stream after so many malformed frames in a row
	// (default 100).
	MaxConsecutiveMalformed int

	// RequestTimeout is the deadline of a request whose route sets none (default 60 s);
	// MaxRequestTimeout holds even then, and however much progress is reported
	// (default 15 min).
	RequestTimeout    time.Duration
	MaxRequestTimeout time.Duration
	// BodyTimeout bounds the arrival of one HTTP body (default 30 s).
	BodyTimeout time.Duration
	// WriteTimeout bounds one write (default 30 s); NotifyTimeout the wait of a
	// notification for room in the queue (default 1 s); CourtesyTimeout the sending of
	// notifications/cancelled for our own requests (default 1 s).
	WriteTimeout    time.Duration
	NotifyTimeout   time.Duration
	CourtesyTimeout time.Duration
	// EventTimeout bounds one operation of the event store (default 1 s).
	EventTimeout time.Duration
	// KeepAlive is how long an HTTP exchange may be silent before it carries a sign of
	// life (default 15 s).
	KeepAlive time.Duration
	// OrphanGrace is how long a legacy request goes on after its HTTP exchange was lost
	// (default 30 s; negative: until its deadline).
	OrphanGrace time.Duration
	// EOFGrace is how long handlers may go on after the peer has closed its sending
	// side (default 1 s; negative: none). CleanupGrace is how long cancelled handlers
	// may take to return before the server closes a session without them (default 500 ms).
	EOFGrace     time.Duration
	CleanupGrace time.Duration
	// HookGrace is how long the stop hooks may take after the drain (default 5 s).
	HookGrace time.Duration
	// AbandonGrace is when a handler that ignores its cancelled context counts as
	// abandoned although its session lives on (default 10 s).
	AbandonGrace time.Duration
	// SaturationGrace is how long all slots must be held and the queue full before the server
	// is not ready, and how long it must not be so before it is ready again (default 5 s;
	// negative: it stays ready).
	SaturationGrace time.Duration
	// SessionIdle ends a legacy session without requests and streams (default 30 min).
	SessionIdle time.Duration
	// SessionLife is the life of a sealed session id, whatever its client does (default 24 h). See
	// [WithStateKeys].
	SessionLife time.Duration
	// PingInterval is how often the client of a legacy HTTP session is asked for a sign
	// of life while it keeps a stream open (default: never); after PingMisses pings in a
	// row without an answer the session is ended (default 3).
	PingInterval time.Duration
	PingMisses   int
	// TaskTTL is how long a task without a TTL of its own lives from its creation (default
	// 1 h), MaxTaskTTL the maximum for all tasks (default 24 h). A task that still runs then is
	// cancelled. TaskGrace is how long the end of a task can be read at least (default 5 min).
	TaskTTL    time.Duration
	MaxTaskTTL time.Duration
	TaskGrace  time.Duration
	// StateTTL is how long a modern client may take to answer a round (default 15 min).
	StateTTL time.Duration
	// InitializeTimeout ends a legacy session whose handshake is not finished (default 1 min).
	InitializeTimeout time.Duration
}

// Check returns what is wrong with the limits: none is negative, except for EOFGrace,
// OrphanGrace and SaturationGrace.
func (l Limits) Check() error { return limits.Limits(l).Check() }
