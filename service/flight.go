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

// A FlightConfig configures the flight recorder. The recorder has a window with the latest seconds
// of the runtime's execution trace. It takes snapshots when a handler was slow, when a handler
// has ignored its cancelled context, and on demand.
type FlightConfig struct {
	// On turns the recorder on. It costs CPU time even without snapshots; docs/telemetry.md has
	// figures. There must be an admin listener.
	On bool
	// Slow is how long a handler must run for a snapshot. With zero there are no such
	// snapshots. It should be less than Age, so that the window has the start of the handler.
	Slow time.Duration
	// Interval is the minimum time between two snapshots that are not on demand.
	Interval time.Duration
	// Age is the length of the window, Bytes its maximum size. Bytes has precedence. For the
	// runtime both are hints.
	Age   time.Duration
	Bytes int
	// Keep is the number of snapshots in memory. The oldest is removed first.
	Keep int
}

func defaultFlight() FlightConfig {
	return FlightConfig{Slow: 5 * time.Second, Interval: time.Minute, Age: 10 * time.Second, Bytes: 16 << 20, Keep: 4}
}

// A flight is the running flight recorder of a process, with its snapshots. It is safe for
// concurrent use.
type flight struct {
	cfg FlightConfig
	tel *telemetry.Telemetry
	now func() time.Time

	unwatch func()
	// incidents has room for one incident. Requests do not wait for the snapshot.
	incidents chan telemetry.HandlerIncident
	done      chan struct{} // closed when run has returned

	taking   sync.Mutex // held while a snapshot is taken; the recorder takes one at a time
	recorder *trace.FlightRecorder

	mu        sync.Mutex // guards the rest
	stopped   bool       // incidents is closed
	last      time.Time  // when the latest incident was accepted; zero: never
	taken     int
	snapshots []*flightSnapshot // oldest first
}

// A flightSnapshot is a snapshot of the trace. It is immutable.
type flightSnapshot struct {
	flightRecord
	data []byte
}

// A flightRecord describes one snapshot. A snapshot on demand has no handler.
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

// startFlight starts a recorder. It fails if the process has a running one.
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

// run takes a snapshot for each incident.
func (f *flight) run() {
	defer close(f.done)
	for incident := range f.incidents {
		if _, err := f.take(incident); err != nil {
			slog.Error("flight.snapshot", "reason", incident.Reason, "error", err)
		}
	}
}

// trigger requests a snapshot for an incident. Requests call it, so it does not wait. It counts
// the incidents for which there will be no snapshot.
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
	s := f.add(incident, bytes.Clone(data.Bytes())) // without unused capacity
	f.tel.Count(telemetry.MetricFlightSnapshots, incident.Reason)
	slog.Info("flight.snapshot", "name", s.Name, "reason", incident.Reason, "method", incident.Method,
		"target", incident.Target, "ran", incident.Ran, "trace_id", incident.TraceID, "bytes", len(s.data))
	return s, nil
}

// add adds a snapshot, and removes the oldest if there are too many.
func (f *flight) add(incident telemetry.HandlerIncident, data []byte) *flightSnapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken++
	at := f.now()
	s := &flightSnapshot{data: data, flightRecord: flightRecord{
		Name: fmt.Sprintf("%s-%d-%s.trace", at.UTC().Format("20060102T150405Z"), f.taken, incident.Reason),
		At:   at, Reason: incident.Reason, Method: incident.Method, Tool: incident.Target, TraceID: incident.TraceID,
		RanSeconds: incident.Ran.Seconds(), Bytes: len(data),
	}}
	f.snapshots = append(f.snapshots, s)
	if extra := len(f.snapshots) - f.cfg.Keep; extra > 0 {
		f.snapshots = slices.Delete(f.snapshots, 0, extra)
	}
	return s
}

// list returns the snapshots, the oldest first.
func (f *flight) list() []*flightSnapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.snapshots)
}

// stop stops the recorder. It waits for a snapshot that is being taken.
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
