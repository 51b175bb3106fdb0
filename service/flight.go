package service

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime/trace"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A FlightConfig is the part of a [Config] that is about the flight recorder: a window
// on the latest seconds of the runtime's execution trace, of which snapshots are taken
// when a handler was slow, when one has ignored its cancelled context, and on demand.
type FlightConfig struct {
	// On arms the recorder. It costs CPU time while it is armed, whether or not snapshots
	// are taken; docs/telemetry.md has figures. There must be an admin listener.
	On bool
	// Slow is how long a handler must have run for a snapshot; zero is never. It should be
	// less than Age, or the window has lost the handler's beginning.
	Slow time.Duration
	// Interval is the least time between two snapshots that were not asked for.
	Interval time.Duration
	// Age is how far back the window should reach, Bytes how large it should become at
	// most. Bytes wins, and the runtime takes both for hints.
	Age   time.Duration
	Bytes int
	// Keep is how many snapshots are kept, in memory. The oldest goes first.
	Keep int
}

func defaultFlight() FlightConfig {
	return FlightConfig{Slow: 5 * time.Second, Interval: time.Minute, Age: 10 * time.Second, Bytes: 16 << 20, Keep: 4}
}

// A flight is the flight recorder of a process at work, and the snapshots that it has
// taken. Its methods may be called from any goroutine.
type flight struct {
	cfg FlightConfig
	tel *telemetry.Telemetry
	now func() time.Time

	unwatch func()
	// incidents is a mailbox of one: a request leaves its incident there and goes on.
	incidents chan telemetry.HandlerIncident
	done      chan struct{} // closed when nobody looks into the mailbox any more

	taking   sync.Mutex // held while a snapshot is taken: the recorder takes one at a time
	recorder *trace.FlightRecorder

	mu      sync.Mutex // guards the rest
	stopped bool       // the mailbox is closed
	last    time.Time  // when an incident was accepted; zero is never
	taken   int
	kept    []*flightSnapshot // oldest first
}

// A flightSnapshot is a trace that was taken. It is immutable.
type flightSnapshot struct {
	flightRecord
	data []byte
}

// A flightRecord describes one snapshot. One that was taken on demand has no handler.
type flightRecord struct {
	Name       string    `json:"name"`
	At         time.Time `json:"at"`
	Reason     string    `json:"reason"` // slow_handler, abandoned_handler, on_demand
	Method     string    `json:"method,omitempty"`
	Tool       string    `json:"tool,omitempty"` // the registered tool or prompt
	TraceID    string    `json:"trace_id,omitempty"`
	RanSeconds float64   `json:"ran_seconds,omitzero"`
	Bytes      int       `json:"bytes"`
}

// startFlight arms a recorder. It fails if the process has an armed one already.
func startFlight(cfg FlightConfig, tel *telemetry.Telemetry, now func() time.Time) (*flight, error) {
	f := &flight{
		cfg: cfg, tel: tel, now: now,
		incidents: make(chan telemetry.HandlerIncident, 1), done: make(chan struct{}),
		recorder: trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: cfg.Age, MaxBytes: uint64(cfg.Bytes)}),
	}
	if err := f.recorder.Start(); err != nil {
		return nil, err
	}
	go f.run()
	f.unwatch = tel.WatchHandlers(cfg.Slow, f.trigger)
	return f, nil
}

// run takes the snapshots that incidents ask for.
func (f *flight) run() {
	defer close(f.done)
	for incident := range f.incidents {
		if _, err := f.take(incident); err != nil {
			slog.Error("flight.snapshot", "reason", incident.Reason, "error", err)
		}
	}
}

// trigger asks for a snapshot because of an incident. It does not wait: a request calls
// it, and a storm of slow ones must not be slowed further. Whatever it holds back is
// counted.
func (f *flight) trigger(incident telemetry.HandlerIncident) {
	if why := f.accept(incident); why != "" {
		f.tel.Count(telemetry.MetricFlightTriggersDropped, why)
	}
}

func (f *flight) accept(incident telemetry.HandlerIncident) (refused string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if !f.last.IsZero() && now.Sub(f.last) < f.cfg.Interval {
		return report.FlightInterval
	}
	if f.stopped {
		return report.FlightBusy
	}
	select {
	case f.incidents <- incident:
		f.last = now
		return ""
	default:
		return report.FlightBusy
	}
}

// take takes a snapshot now and keeps it.
func (f *flight) take(incident telemetry.HandlerIncident) (*flightSnapshot, error) {
	f.taking.Lock()
	defer f.taking.Unlock()
	var data bytes.Buffer
	if _, err := f.recorder.WriteTo(&data); err != nil {
		f.tel.Count(telemetry.MetricFlightTriggersDropped, report.FlightFailed)
		return nil, err
	}
	s := f.keep(incident, bytes.Clone(data.Bytes())) // without the buffer's reserve
	f.tel.Count(telemetry.MetricFlightSnapshots, incident.Reason)
	slog.Info("flight.snapshot", "name", s.Name, "reason", incident.Reason, "method", incident.Method,
		"target", incident.Target, "ran", incident.Ran, "trace_id", incident.TraceID, "bytes", len(s.data))
	return s, nil
}

// keep adds a snapshot, and lets go of the oldest if there are too many.
func (f *flight) keep(incident telemetry.HandlerIncident, data []byte) *flightSnapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken++
	at := f.now()
	s := &flightSnapshot{data: data, flightRecord: flightRecord{
		Name: fmt.Sprintf("%s-%d-%s.trace", at.UTC().Format("20060102T150405Z"), f.taken, incident.Reason),
		At:   at, Reason: incident.Reason, Method: incident.Method, Tool: incident.Target, TraceID: incident.TraceID,
		RanSeconds: incident.Ran.Seconds(), Bytes: len(data),
	}}
	f.kept = append(f.kept, s)
	if extra := len(f.kept) - f.cfg.Keep; extra > 0 {
		f.kept = slices.Delete(f.kept, 0, extra)
	}
	return s
}

// list returns the snapshots that are kept, oldest first.
func (f *flight) list() []*flightSnapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.kept)
}

// stop disarms the recorder and waits for what goes on. Afterwards no snapshot is taken.
func (f *flight) stop() {
	f.unwatch()
	f.mu.Lock()
	f.stopped = true
	close(f.incidents)
	f.mu.Unlock()
	<-f.done
	f.taking.Lock()
	defer f.taking.Unlock()
	f.recorder.Stop()
}
