package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/wire"
)

// Limits are the bounds of the core. The zero value of a field means its default;
// [Bounds] has them all.
type Limits struct {
	// MaxFrameBytes bounds one message (default 4 MiB), MaxDepth its nesting (default 64).
	MaxFrameBytes int
	MaxDepth      int
	// MaxInFlight bounds the running handlers of one session (default 256);
	// MaxInFlightTotal those of the process (default 4096).
	MaxInFlight      int
	MaxInFlightTotal int
	// MaxQueue bounds the requests of the process that wait for a slot (default 4096).
	MaxQueue int
	// MaxSessions bounds the legacy sessions (default 10 000).
	MaxSessions int
	// MaxOutbound bounds the server-to-client requests pending in one session (default 64).
	MaxOutbound int
	// MaxQueuedMessages and MaxQueuedBytes bound what waits on one stream for its
	// writer (default 1024 messages, 16 MiB). Answers are always queued: the requests
	// behind them are bounded already.
	MaxQueuedMessages int
	MaxQueuedBytes    int
	// MaxBodyBytesPending bounds the HTTP bodies of the process that have not arrived
	// yet (default 256 MiB). Bodies up to 64 KiB do not count.
	MaxBodyBytesPending int
	// MaxConsecutiveMalformed closes a byte stream that carries only garbage (default 100).
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
	// KeepAlive is how long an HTTP exchange may be silent before it carries a sign of
	// life (default 15 s).
	KeepAlive time.Duration
	// OrphanGrace is how long a legacy request goes on after its HTTP exchange was lost
	// (default: until its deadline).
	OrphanGrace time.Duration
	// EOFGrace is how long handlers may go on after the peer has closed its sending
	// side (default 1 s; negative: none). CleanupGrace is how long cancelled handlers
	// may take to return before a teardown goes on without them (default 500 ms).
	EOFGrace     time.Duration
	CleanupGrace time.Duration
	// HookGrace is how long the stop hooks may take after the drain (default 5 s).
	HookGrace time.Duration
	// AbandonGrace is when a handler that ignores its cancelled context counts as
	// abandoned although its session lives on (default 10 s).
	AbandonGrace time.Duration
	// SessionIdle ends a legacy session without requests and streams (default 30 min).
	SessionIdle time.Duration
	// PingInterval is how often the client of a legacy HTTP session is asked for a sign
	// of life while it keeps a stream open (default: never); after PingMisses pings in a
	// row without an answer the session is ended (default 3).
	PingInterval time.Duration
	PingMisses   int
	// InitializeTimeout ends a legacy session whose handshake is not finished (default 1 min).
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
	LimitInFlight       = "max_in_flight"
	LimitQueue          = "max_queue"
	LimitSessions       = "max_sessions"
	LimitOutbound       = "max_outbound"
	LimitQueuedMessages = "max_queued_messages"
	LimitQueuedBytes    = "max_queued_bytes"
	LimitBodyBytes      = "max_body_bytes_pending"
	LimitMalformed      = "max_consecutive_malformed"
	LimitRequestTimeout = "request_timeout"

	LimitMaxRequestTimeout = "max_request_timeout"

	LimitBodyTimeout   = "body_timeout"
	LimitWriteTimeout  = "write_timeout"
	LimitNotifyTimeout = "notify_timeout"
)

// Bounds is the one table of all limits, graces and time-outs of the core.
func Bounds() []Bound {
	wl := wire.DefaultLimits()
	return []Bound{
		{LimitFrameBytes, wl.MaxBytes, "bytes", "size of one message", true,
			func(l *Limits) any { return &l.MaxFrameBytes }},
		{LimitDepth, wl.MaxDepth, "levels", "nesting of one message", true,
			func(l *Limits) any { return &l.MaxDepth }},
		{LimitInFlight, 256, "requests", "handlers that run at once in one session", true,
			func(l *Limits) any { return &l.MaxInFlight }},
		{"max_in_flight_total", 4096, "requests", "handlers that run at once in the process", false,
			func(l *Limits) any { return &l.MaxInFlightTotal }},
		{LimitQueue, 4096, "requests", "requests that wait for a slot", true,
			func(l *Limits) any { return &l.MaxQueue }},
		{LimitSessions, 10_000, "sessions", "legacy HTTP sessions", true,
			func(l *Limits) any { return &l.MaxSessions }},
		{LimitOutbound, 64, "requests", "requests to one client that it has not answered", true,
			func(l *Limits) any { return &l.MaxOutbound }},
		{LimitQueuedMessages, 1024, "messages", "messages that wait for the writer of one stream", true,
			func(l *Limits) any { return &l.MaxQueuedMessages }},
		{LimitQueuedBytes, 16 << 20, "bytes", "bytes that wait for the writer of one stream", true,
			func(l *Limits) any { return &l.MaxQueuedBytes }},
		{LimitBodyBytes, 256 << 20, "bytes", "HTTP bodies of the process that have not arrived yet", true,
			func(l *Limits) any { return &l.MaxBodyBytesPending }},
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
	return wire.Limits{MaxBytes: l.MaxFrameBytes, MaxDepth: l.MaxDepth}
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
