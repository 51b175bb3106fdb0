package telemetry

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/report"
)

// ChangesHandler serves what has changed: rates, errors, cancellations, dropped answers, rejections, times
// and bytes that differ from before, since when, and which client, version, principal or tool has most of the
// difference. It looks at the last two hours, up to the last full ten seconds.
//
// The query may have two windows to compare: from and to, and before_from and before_to, as in
// 2026-03-04T12:00:00Z. They are rounded down to ten seconds. Without to it is now, without before_from and
// before_to the hour before from. The answer is JSON, or text as with [Telemetry.RequestsHandler].
func (t *Telemetry) ChangesHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !readOnly(w, req) {
			return
		}
		windows, err := readWindows(req.URL.Query(), time.Now())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		rep, err := t.whatChanged(windows)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		report.Write(w, req, rep)
	})
}

// searchedSteps is how many steps are searched for changes: two hours.
const searchedSteps = 2 * 3600 / changes.StepSeconds

// A changesPage makes the page. All readers of a step share one search. The memory of a search is used again by
// the next one, and let go a minute after the last.
type changesPage struct {
	mu      sync.Mutex // guards the rest, and is held during a search
	step    int64
	last    *report.Changes
	history *changes.History // nil: nobody has looked for a minute
	unused  *time.Timer
}

// unusedAfter is how long the memory of a search is kept.
const unusedAfter = time.Minute

// whatChanged searches, or compares two windows. The error says what is wrong with these.
func (t *Telemetry) whatChanged(windows *report.Windows) (*report.Changes, error) {
	p := &t.search
	p.mu.Lock()
	defer p.mu.Unlock()
	now := changes.Now()
	step := changes.Step(now)
	if windows == nil && p.last != nil && p.step == step {
		return p.last, nil
	}
	rep := &report.Changes{At: now, Windows: windows, Threshold: changes.Threshold, Changes: []report.Change{}}
	if t.Enabled() {
		found, err := p.find(t.changes, windows, step)
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			rep.Changes = append(rep.Changes, t.change(&c))
		}
		stats := t.changes.Stats()
		rep.History = report.ChangeHistory{
			Oldest: stats.Oldest, Keys: stats.Keys, Bytes: stats.Bytes, MaxBytes: stats.MaxBytes, Merged: stats.Merged,
			Searched: changes.StepTime(p.history.From),
		}
	}
	if windows == nil {
		p.step, p.last = step, rep
	}
	return rep, nil
}

// find looks for changes before a step, or compares two windows. The caller must hold p.mu.
func (p *changesPage) find(store *changes.Store, windows *report.Windows, step int64) ([]changes.Change, error) {
	if p.history == nil {
		p.history = &changes.History{}
		p.unused = time.AfterFunc(unusedAfter, func() { p.letGo(store) })
	} else {
		p.unused.Reset(unusedAfter)
	}
	if windows == nil {
		store.Fill(p.history, step, searchedSteps)
		return changes.Find(p.history), nil
	}
	from, to := changes.Step(windows.From), changes.Step(windows.To)
	beforeFrom, beforeTo := changes.Step(windows.BeforeFrom), changes.Step(windows.BeforeTo)
	if err := store.FillWindows(p.history, beforeFrom, beforeTo, from, to); err != nil {
		return nil, err
	}
	return changes.Compare(p.history, beforeFrom, beforeTo, from, to), nil
}

// letGo lets go of the memory of searches.
func (p *changesPage) letGo(store *changes.Store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.history = nil
	store.Release()
}

// longestWindows bounds the time from the beginning of the first window to the end of the second.
const longestWindows = 24 * time.Hour

// readWindows reads the windows of a query. They are nil if the query has none.
func readWindows(query url.Values, now time.Time) (*report.Windows, error) {
	names := []string{"from", "to", "before_from", "before_to"}
	for name := range query {
		if name != "format" && !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no parameter %q: want from, to, before_from, before_to", name)
		}
	}
	times := map[string]time.Time{}
	for _, name := range names {
		at, err := timeOf(query, name)
		if err != nil {
			return nil, err
		}
		if !at.IsZero() {
			times[name] = at
		}
	}
	if len(times) == 0 {
		return nil, nil
	}
	if times["from"].IsZero() {
		return nil, errors.New("from is missing: it is the beginning of the window that is compared with the one before")
	}
	if times["before_from"].IsZero() != times["before_to"].IsZero() {
		return nil, errors.New("want both of before_from and before_to, or none for the hour before from")
	}
	w := &report.Windows{From: times["from"], To: times["to"], BeforeFrom: times["before_from"], BeforeTo: times["before_to"]}
	if w.To.IsZero() || w.To.After(now) {
		w.To = now
	}
	if w.BeforeFrom.IsZero() {
		w.BeforeFrom, w.BeforeTo = w.From.Add(-time.Hour), w.From
	}
	for _, at := range []*time.Time{&w.From, &w.To, &w.BeforeFrom, &w.BeforeTo} {
		*at = at.UTC().Truncate(changes.StepSeconds * time.Second)
	}
	const least = changes.StepSeconds * time.Second
	switch {
	case w.To.Sub(w.From) < least:
		return nil, errors.New("to must be at least ten seconds after from")
	case w.BeforeTo.Sub(w.BeforeFrom) < time.Minute:
		return nil, errors.New("before_to must be at least a minute after before_from")
	case w.BeforeTo.After(w.From):
		return nil, errors.New("before_to must not be after from")
	case w.To.Sub(w.BeforeFrom) > longestWindows:
		return nil, errors.New("the time from before_from to to must not be longer than 24 hours")
	}
	return w, nil
}
