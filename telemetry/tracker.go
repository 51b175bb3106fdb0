package telemetry

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Bounds of what is remembered for servers that are no [Source].
const (
	maxTracked       = 10000 // operations, and sessions, that are shown; the others are only counted
	maxTrackedSeries = 1000  // pairs of method and target; the others have the target _OTHER
)

// A tracker is the [Source] of servers that are none: it keeps the live set and the
// counters of their operations.
type tracker struct {
	known map[string]bool // the methods of the protocol
	add   func()          // makes the tracker one of the sources, once

	mu       sync.Mutex // guards the rest, and the state of all that is tracked
	live     map[*tracked]struct{}
	sessions map[*trackedSession]struct{}
	counts   map[*Series]*SeriesCounters
	own      Counters // without series
}

func newTracker(add func(Source)) *tracker {
	k := &tracker{
		known: map[string]bool{}, live: map[*tracked]struct{}{}, sessions: map[*trackedSession]struct{}{},
		counts: map[*Series]*SeriesCounters{},
		own: Counters{
			Received: map[string]uint64{}, Rejected: map[mcp.RejectReason]uint64{}, SessionsClosed: map[mcp.Cause]uint64{},
			Refused: map[string]map[string]uint64{},
		},
	}
	for _, method := range mcp.Methods() {
		k.known[method] = true
	}
	k.add = sync.OnceFunc(func() { add(k) })
	return k
}

// track begins an operation of a server that is no source.
func (t *Telemetry) track(ctx context.Context, info Info) (context.Context, *Operation) {
	k := t.tracked
	k.add()
	x := exchangeOf(ctx)
	x.complete(&info)
	if info.ArrivedAt.IsZero() {
		info.ArrivedAt = time.Now()
	}
	if info.Series == nil {
		info.Series = k.seriesOf(t, &info)
	}
	tr := &tracked{tracker: k, info: info, queued: info.Queued}
	op := &Operation{series: info.Series, origin: tr}
	tr.op = op
	if !info.Queued {
		tr.started = 1 // it was called at once; 0 is never
	}
	ctx = tr.begin(ctx)
	k.enter(tr)
	tr.watch(ctx, x)
	return ctx, op
}

// seriesOf finds the labels of an operation that comes without.
func (k *tracker) seriesOf(t *Telemetry, info *Info) *Series {
	method, target := info.Method, info.Target
	if !k.known[method] {
		method, target = other, ""
	}
	all := t.series.load()
	if _, ok := all[seriesKey{method, target}]; !ok && len(all) >= maxTrackedSeries && target != "" {
		target = other
	}
	return t.Series(method, target)
}

// enter adds an operation to the live set.
func (k *tracker) enter(tr *tracked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.own.Received["request"]++
	tr.counts = k.countsOf(tr.op.series)
	if len(k.live) < maxTracked {
		k.live[tr] = struct{}{}
	} else {
		tr.admit()
	}
}

// countsOf returns the counters of a series. The caller must hold k.mu.
func (k *tracker) countsOf(s *Series) *SeriesCounters {
	c := k.counts[s]
	if c == nil {
		c = &SeriesCounters{
			Method: s.key.method, Target: s.key.target, Dropped: map[mcp.DropReason]uint64{},
			Cancelled: map[mcp.Cause]uint64{}, Abandoned: map[mcp.Cause]uint64{},
		}
		k.counts[s] = c
	}
	return c
}

// Snapshot implements [Source].
func (k *tracker) Snapshot() *Snapshot {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	snap := &Snapshot{At: now, Counters: Counters{
		Received: maps.Clone(k.own.Received), Rejected: maps.Clone(k.own.Rejected), SessionsClosed: maps.Clone(k.own.SessionsClosed),
		Refused: k.refused(),
	}}
	for tr := range k.live {
		tr.admit()
		row := tr.row(now)
		if row.State == report.StateListening || tr.acknowledged != 0 {
			snap.Subscriptions = append(snap.Subscriptions, row)
		} else {
			snap.Requests = append(snap.Requests, row)
		}
	}
	for s := range k.sessions {
		snap.Sessions = append(snap.Sessions, s.row(now))
	}
	for _, c := range k.counts {
		copied := *c
		copied.Dropped, copied.Cancelled, copied.Abandoned = maps.Clone(c.Dropped), maps.Clone(c.Cancelled), maps.Clone(c.Abandoned)
		snap.Counters.Series = append(snap.Counters.Series, copied)
	}
	return snap
}
