package changes

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/order"
)

// Threshold is the least score of a change that [Find] returns. docs/telemetry.md says how it was chosen.
const Threshold = 7

// A Change is a difference between two windows, and the part of the traffic that has most of it.
type Change struct {
	Measure string
	// Score is about how many standard deviations the change has.
	Score float64
	// Since is when it began, Until when it was over, or the end of the history.
	Since, Until time.Time
	Lasts        bool // until the end of the history
	// BeforeFrom and BeforeTo are the window with which the window from Since to Until is compared.
	BeforeFrom, BeforeTo time.Time
	// Before and After are of the part: a share of the calls, calls or expired answers per second, bytes, or
	// seconds per call.
	Before, After float64
	// Count is how many calls of the part ended like this after the change, if the measure is a share.
	Count int
	// Parts are the part of the traffic; all of it if there is none. Share is its part of the change,
	// Calls its part of the calls.
	Parts        []Part
	Share, Calls float64
	// Reason and Phase are those of most of the new ends, or of more running time; see [Key].
	Reason, Phase           string
	ReasonShare, PhaseShare float64
	// First is when a value of the part was seen first, if that was not long before the change. New is this
	// value.
	First time.Time
	New   Part
	// Others are other versions of a client in the same window.
	Others []OtherVersion

	measure *measure
	at      span
	rank    float64
}

// OtherVersion is another version of a client, and the measure of its calls after the change. Gone says that
// there are none after it: then it is that of the calls before.
type OtherVersion struct {
	Version string
	Value   float64
	Gone    bool
}

// Find returns what has changed in a history, the most important first.
func Find(h *History) []Change {
	var found []Change
	for i := range measures {
		m := &measures[i]
		for _, part := range h.parts(m) {
			matches := func(k *Key) bool { return inAll(part, k) }
			s := h.series(m, matches)
			for _, at := range h.candidates(m, s) {
				if c := compare(m, s, at); c.score >= Threshold {
					found = append(found, h.changes(m, at, part)...)
				}
			}
			h.done(s)
		}
	}
	return ranked(found)
}

// Compare returns the differences between two windows of a history, the most important first.
func Compare(h *History, beforeFrom, beforeTo, from, to int64) []Change {
	at := span{int(beforeFrom - h.From), int(beforeTo - h.From), int(from - h.From), int(to - h.From)}
	var found []Change
	for i := range measures {
		m := &measures[i]
		for _, part := range h.parts(m) {
			s := h.series(m, func(k *Key) bool { return inAll(part, k) })
			if c := compare(m, s, at); c.score >= Threshold {
				found = append(found, h.changes(m, at, part)...)
			}
			h.done(s)
		}
	}
	for i := range found { // the windows are what was asked for
		found[i].Until, found[i].Lasts = StepTime(to), to == h.To
	}
	return ranked(found)
}

// parts returns the parts of the traffic in which a measure is looked at: all, and each value of a
// dimension. Single callers come and go, so that the rates of principals are not looked at.
func (h *History) parts(m *measure) [][]Part {
	list := [][]Part{nil}
	for _, dimension := range []string{DimensionTool, DimensionClient, DimensionPrincipal} {
		if m.kind == kindRate && dimension == DimensionPrincipal {
			continue
		}
		calls := map[Value]float64{}
		for _, k := range h.keys {
			n := 0.0
			for i := range k.cells {
				n += float64(k.cells[i].calls)
			}
			calls[valueOf(&k.Key, dimension)] += n
		}
		var values []Value
		for v, n := range calls {
			if n >= 2*leastCalls && v.Text != "" && len(calls) > 1 {
				values = append(values, v)
			}
		}
		order.By(values, func(a, b *Value) bool {
			return cmp.Or(cmp.Compare(calls[*b], calls[*a]), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Detail, b.Detail)) < 0
		})
		for _, v := range values[:min(len(values), mostSlices)] {
			list = append(list, []Part{{dimension, []Value{v}}})
		}
	}
	return list
}

// mostSlices is how many values of a dimension are looked at, those with the most calls.
const mostSlices = 200

// A scored span may be one that a change divides.
type scored struct {
	span
	score float64
}

// candidates returns the spans in which a series differs most: at most two, with different beginnings.
func (h *History) candidates(m *measure, s *series) (best []span) {
	all, steps := h.spans[:0], h.steps()
	for from := leastBefore; from+leastAfter <= steps; from++ {
		for _, length := range []int{2 * stepsPerMinute, 5 * stepsPerMinute, 15 * stepsPerMinute, steps - from} {
			if from+length > steps || from+length < steps && length < leastEnded {
				continue
			}
			at := span{max(from-mostBefore, 0), from, from, from + length}
			if score := rough(m, s, at); score > 0 {
				all = append(all, scored{at, score})
			}
		}
	}
	h.spans = all
	for range 2 {
		top := -1
		for i := range all {
			apart := !slices.ContainsFunc(best, func(b span) bool { return all[i].from < b.to && b.from < all[i].to })
			if apart && (top < 0 || all[i].score > all[top].score) {
				top = i
			}
		}
		if top < 0 {
			break
		}
		best = append(best, all[top].span)
	}
	for i := range best {
		best[i] = sharpened(m, s, best[i])
	}
	return best
}

// goesOn reports whether a change goes on to the end of the history: no part of what follows its span has
// become as before, and not only smaller.
func (h *History) goesOn(m *measure, s *series, at span) bool {
	before, ok1 := s.value(m, at.beforeFrom, at.beforeTo)
	after, ok2 := s.value(m, at.from, at.to)
	for to := h.steps(); to > at.to; to -= leastEnded {
		rest, ok := s.value(m, max(at.to, to-leastEnded), to)
		least := leastOctaves
		if m.kind == kindShare {
			least = math.Abs(after-before) / 4
		}
		if !ok || !ok1 || !ok2 || (rest > before) != (after > before) || math.Abs(rest-before) < least {
			return false
		}
	}
	return true
}

// rough is a score that is quick to compute.
func rough(m *measure, s *series, at span) float64 {
	sumBefore, callsBefore := s.in(at.beforeFrom, at.beforeTo)
	sum, calls := s.in(at.from, at.to)
	before, after := float64(at.beforeTo-at.beforeFrom), float64(at.to-at.from)
	switch m.kind {
	case kindShare:
		if calls == 0 || callsBefore == 0 || sum < leastExcess || sum/calls < leastRatio*sumBefore/callsBefore {
			return 0
		}
		return surprise(sumBefore, callsBefore, sum, calls)
	case kindRate:
	default:
		if min(calls, callsBefore) < leastCalls {
			return 0
		}
	}
	v1, ok1 := s.value(m, at.beforeFrom, at.beforeTo)
	v2, ok2 := s.value(m, at.from, at.to)
	if !ok1 || !ok2 || math.Abs(v2-v1) < leastOctaves {
		return 0
	}
	return (v2 - v1) * (v2 - v1) * before * after / (before + after)
}

// sharpened returns a span of which the beginning is the step that divides the steps around it best. Without
// it, a mean with few large values seems to change earlier than it does.
func sharpened(m *measure, s *series, at span) span {
	if m.kind == kindShare {
		return at
	}
	low, high := max(at.beforeFrom, at.from-leastBefore), min(at.to, at.from+leastBefore)
	best, most := at.from, 0.0
	var sumBefore, before, sumAfter, after float64 // of the steps with a value
	for step := low; step < high; step++ {
		if v, ok := s.value(m, step, step+1); ok {
			sumAfter, after = sumAfter+v, after+1
		}
	}
	for from := low + 1; from < min(high, at.to-leastAfter+1); from++ {
		if v, ok := s.value(m, from-1, from); ok {
			sumBefore, before, sumAfter, after = sumBefore+v, before+1, sumAfter-v, after-1
		}
		if from < leastBefore || before == 0 || after == 0 {
			continue
		}
		difference := sumBefore/before - sumAfter/after
		if score := difference * difference * before * after / (before + after); score > most {
			best, most = from, score
		}
	}
	at.from, at.beforeTo = best, best
	at.beforeFrom = max(best-mostBefore, 0)
	return at
}

// changes explains a difference in a part of the traffic. There is a change for each part of it that has
// much of the difference.
func (h *History) changes(m *measure, at span, start []Part) (list []Change) {
	rows := h.rows(m, at, func(k *Key) bool { return inAll(start, k) })
	total := totalOf(rows)
	if total == 0 {
		return nil
	}
	parts := slices.Concat(start, explain(m, rows))
	s := h.series(m, func(k *Key) bool { return inAll(parts, k) })
	c := compare(m, s, at)
	if c.score < Threshold {
		c = compare(m, h.series(m, func(k *Key) bool { return inAll(start, k) }), at)
		_, before := s.in(at.beforeFrom, at.beforeTo)
		_, after := s.in(at.from, at.to)
		if before >= callsOfALevel || after < leastCalls { // else the part is new
			parts = start
		}
	}
	share := h.shareOf(m, at, parts)
	if share < leastShare || !h.matters(m, at, parts) {
		return nil
	}
	change := Change{
		Measure: m.name, Score: c.score, Parts: tidy(parts), Share: share, measure: m, at: at,
		Since: StepTime(h.From + int64(at.from)), Until: StepTime(h.From + int64(at.to)), Lasts: h.goesOn(m, s, at),
		BeforeFrom: StepTime(h.From + int64(at.beforeFrom)), BeforeTo: StepTime(h.From + int64(at.beforeTo)),
	}
	if change.Lasts {
		change.Until = StepTime(h.From + int64(h.steps()))
	}
	change.Before, change.After = natural(m, s, at.beforeFrom, at.beforeTo), natural(m, s, at.from, at.to)
	change.Calls = h.callsOf(parts, at)
	if m.kind == kindShare {
		to := at.to
		if change.Lasts {
			to = h.steps()
		}
		count, _ := s.in(at.from, to)
		change.Count = int(count)
		change.Reason, change.Phase, change.ReasonShare, change.PhaseShare = h.likely(m, at, parts)
	}
	if m.name == MeasureRunning {
		_, phase, _, share := h.likely(m, at, parts)
		if strings.HasPrefix(phase, PhaseMiddleware) {
			change.Phase, change.PhaseShare = phase, share
		}
	}
	h.addFirst(&change)
	h.addOthers(&change)
	change.rank = min(change.Score, mostScore) * m.weight * (1 + change.Share)
	return []Change{change}
}

// matters reports whether the measure has really changed in a part of the traffic, and not only the mix of
// the traffic; and, of a rate, whether the change was sudden and concerns much of the traffic.
func (h *History) matters(m *measure, at span, parts []Part) bool {
	rows := h.rows(m, at, func(k *Key) bool { return inAll(parts, k) })
	excess, calls, expected := 0.0, 0.0, 0.0
	for _, r := range rows {
		excess, calls, expected = excess+r.excess, calls+r.callsIn, expected+r.sum-r.excess
	}
	switch m.kind {
	case kindShare:
		return excess >= leastExcess && excess >= leastPart*calls
	case kindLog:
		return math.Abs(excess)/max(calls, 1)/16 >= leastOctaves/2
	case kindMean:
		before, after := expected/max(calls, 1)+m.small, (expected+excess)/max(calls, 1)+m.small
		return before > 0 && math.Abs(math.Log2(after/before)) >= leastOctaves/2
	}
	s, all := h.series(m, func(k *Key) bool { return inAll(parts, k) }), h.series(m, func(*Key) bool { return true })
	near, far := min(3*stepsPerMinute, at.from-at.beforeFrom), min(leastAfter, at.to-at.from)
	v1, _ := s.value(m, at.beforeTo-near, at.beforeTo)
	v2, _ := s.value(m, at.from, at.from+far)
	b, _ := s.value(m, at.beforeFrom, at.beforeTo)
	a, _ := s.value(m, at.from, at.to)
	_, allBefore := all.in(at.beforeFrom, at.beforeTo)
	_, allAfter := all.in(at.from, at.to)
	rate := max(allBefore/float64(at.beforeTo-at.beforeFrom), allAfter/float64(at.to-at.from))
	return (v2-v1)/(a-b) >= leastRateJump && math.Abs(excess)/float64(at.to-at.from) >= leastImpact*rate
}

// mostScore is the score above which changes are equally sure.
const mostScore = 40

// natural returns the measure of a window in the units of a [Change].
func natural(m *measure, s *series, from, to int) float64 {
	sum, calls := s.in(from, to)
	each, seconds := sum/max(calls, 1), stepsTime(int64(max(to-from, 1))).Seconds()
	switch {
	case m.kind == kindRate:
		return calls / seconds
	case m.name == MeasureExpired:
		return sum / seconds
	case m.kind == kindLog:
		each = math.Exp2(each/16) - 1
	}
	if m.time() {
		return each / 1e6
	}
	return each
}

// shareOf returns how much of the change in all the traffic a part has.
func (h *History) shareOf(m *measure, at span, parts []Part) float64 {
	rows := h.rows(m, at, func(*Key) bool { return true })
	total, in := 0.0, 0.0
	for _, r := range rows {
		total += r.excess
		if inAll(parts, &r.key) {
			in += r.excess
		}
	}
	if in/total < 0 { // other parts have changed in the other direction
		return 1
	}
	return min(in/total, 1)
}

func (h *History) callsOf(parts []Part, at span) float64 {
	var in, all float64
	for _, k := range h.keys {
		if !k.isCall() {
			continue
		}
		for i := range k.cells {
			if step := int(k.cells[i].step); step >= at.from && step < at.to {
				all += float64(k.cells[i].calls)
				if inAll(parts, &k.Key) {
					in += float64(k.cells[i].calls)
				}
			}
		}
	}
	return in / max(all, 1)
}
