package telemetry

import (
	"cmp"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/order"
	"github.com/vitrine-mcp/vitrine/internal/report"
)

// liveRows is how many rows of a list are in a frame at most.
const liveRows = 50

func firstRows[T any](rows []T) report.List[T] {
	n := min(len(rows), liveRows)
	return report.List[T]{Rows: append([]T{}, rows[:n]...), LeftOut: len(rows) - n}
}

// A frameMaker makes the frames of one run. It has what it needs of the previous frame.
type frameMaker struct {
	t       *Telemetry
	seq     uint64
	at      time.Time
	sums    map[string]float64
	traces  uint64 // the latest that was in a frame
	windows map[*Series]*latencyWindow
}

func newFrameMaker(t *Telemetry) *frameMaker {
	return &frameMaker{t: t, windows: map[*Series]*latencyWindow{}}
}

func (m *frameMaker) next() *report.Frame {
	rep := m.t.report()
	f := &report.Frame{
		Process: m.t.live.process, At: rep.At, Readiness: rep.Readiness, InFlight: rep.InFlight, Shares: rep.Shares, Classes: rep.Classes, OldestAgeSeconds: rep.OldestAgeSeconds,
		Requests: firstRows(rep.Requests), Subscriptions: firstRows(rep.Subscriptions), Tasks: firstRows(rep.Tasks),
		Outbound: firstRows(rep.Outbound), Sessions: firstRows(rep.Sessions), StoredEvents: rep.StoredEvents,
		EndedStreams: report.InTurns(rep.EndedStreams), Disconnects: rep.Disconnects, Totals: rep.Totals, Kept: map[string]int{},
		SessionsByTransport: map[string]int{},
	}
	for i := range rep.Sessions {
		f.SessionsByTransport[rep.Sessions[i].Transport]++
		if rep.Sessions[i].Streaming {
			f.SessionsStreaming++
		}
	}
	m.seq++
	f.Seq = m.seq
	if m.t.Enabled() {
		f.Kept = m.t.recent.counts()
	}
	f.Tools, f.Errors = m.tools(rep.At)
	f.Traces = m.newTraces()
	m.rate(f)
	m.at = rep.At
	return f
}

// rate sets the rates from the totals of two frames.
func (m *frameMaker) rate(f *report.Frame) {
	sums := map[string]float64{
		"admitted": float64(f.Totals.Admitted), "sent": float64(f.Totals.Sent + f.Totals.Stored), "errors": float64(f.Errors),
		"cancelled": sumOf(f.Totals.Cancelled), "dropped": sumOf(f.Totals.Dropped), "rejected": sumOf(f.Totals.Rejected),
	}
	if took := f.At.Sub(m.at).Seconds(); m.sums != nil && took > 0 {
		f.Rates = make(map[string]float64, len(sums))
		for name, sum := range sums {
			f.Rates[name] = max(sum-m.sums[name], 0) / took // the sums fall when a server is removed
		}
	}
	m.sums = sums
}

func sumOf(counts map[string]uint64) (sum float64) {
	for _, n := range counts {
		sum += float64(n)
	}
	return sum
}

func (m *frameMaker) newTraces() report.List[report.Trace] {
	list := m.t.latest()
	fresh := 0
	for fresh < len(list) && list[fresh].seq > m.traces {
		fresh++
	}
	if fresh > 0 {
		m.traces = list[0].seq
	}
	rows := make([]report.Trace, 0, min(fresh, liveRows))
	for _, k := range list[:min(fresh, liveRows)] {
		rows = append(rows, k.row())
	}
	return report.List[report.Trace]{Rows: rows, LeftOut: fresh - len(rows)}
}

// tools returns the rates and latencies of methods and targets. failed is
// the number of errors of the service.
func (m *frameMaker) tools(now time.Time) (list report.List[report.Tool], failed uint64) {
	var rows []report.Tool
	if m.t.Enabled() {
		for key, s := range m.t.series.load() {
			calls, errs := s.latency.calls.Load(), s.latency.errors.Load()
			failed += errs
			if calls == 0 {
				continue
			}
			w := m.windows[s]
			if w == nil {
				w = &latencyWindow{}
				m.windows[s] = w
			}
			row := report.Tool{Method: key.method, Tool: key.target, Calls: calls, Errors: errs}
			w.fill(&row, now, s.latency.read())
			rows = append(rows, row)
		}
	}
	return firstTools(rows), failed
}

// firstTools returns the most called, in this order. Those with errors leave out those without.
func firstTools(rows []report.Tool) report.List[report.Tool] {
	byCalls := func(a, b *report.Tool) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Tool, b.Tool))
	}
	order.By(rows, func(a, b *report.Tool) bool {
		if (a.Errors > 0) != (b.Errors > 0) {
			return a.Errors > 0
		}
		return byCalls(a, b) < 0
	})
	list := firstRows(rows)
	order.By(list.Rows, func(a, b *report.Tool) bool { return byCalls(a, b) < 0 })
	return list
}

const (
	liveWindow = time.Minute
	liveSlot   = 5 * time.Second
)

// A latencyWindow has the readings of a sketch in the last minute, one for each slot.
type latencyWindow struct {
	readings []latencyReading // the oldest first
}

type latencyReading struct {
	at     time.Time
	counts latencyCounts
}

// fill sets the rate and the quantiles of the calls since the oldest reading. It adds a reading
// once per slot.
func (w *latencyWindow) fill(row *report.Tool, now time.Time, counts latencyCounts) {
	window := counts
	if len(w.readings) > 0 {
		oldest := &w.readings[0]
		if d := counts.since(&oldest.counts); d.total() > 0 {
			window = d
			row.WindowSeconds = now.Sub(oldest.at).Seconds()
			row.Rate = float64(d.total()) / max(row.WindowSeconds, 1)
		}
	}
	row.P50, row.P95, row.P99 = window.quantile(0.5), window.quantile(0.95), window.quantile(0.99)
	if n := len(w.readings); n == 0 || now.Sub(w.readings[n-1].at) >= liveSlot {
		w.readings = append(w.readings, latencyReading{now, counts})
	}
	for len(w.readings) > 1 && now.Sub(w.readings[1].at) >= liveWindow {
		w.readings = w.readings[1:]
	}
}
