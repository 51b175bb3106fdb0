package changes

import (
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/order"
)

// tidy removes a client beside its version, and sorts the parts: the client, the principal, the tool.
func tidy(parts []Part) []Part {
	version := slices.ContainsFunc(parts, func(p Part) bool { return p.Dimension == DimensionVersion })
	parts = slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return version && p.Dimension == DimensionClient })
	dimensions := []string{DimensionVersion, DimensionClient, DimensionPrincipal, DimensionTool}
	order.By(parts, func(a, b *Part) bool {
		return slices.Index(dimensions, a.Dimension) < slices.Index(dimensions, b.Dimension)
	})
	return parts
}

// newSteps is how many steps before a change a value may have been seen first to be called new.
const newSteps = 10 * stepsPerMinute

// addFirst adds when a value of the part was seen first, if it is new.
func (h *History) addFirst(c *Change) {
	for _, part := range c.Parts {
		if len(part.Values) != 1 {
			continue
		}
		var first time.Time
		for _, k := range h.keys {
			if part.has(&k.Key) && (first.IsZero() || k.First.Before(first)) {
				first = k.First
			}
		}
		begin := StepTime(h.From + newSteps/2) // what is as old as the history is not new
		if first.After(begin) && first.After(c.Since.Add(-stepsTime(newSteps))) && first.Before(c.Until) {
			c.First, c.New = first, part
			return
		}
	}
}

// addOthers adds the other versions of the client.
func (h *History) addOthers(c *Change) {
	for _, part := range c.Parts {
		if part.Dimension != DimensionVersion || len(part.Values) != 1 {
			continue
		}
		value := part.Values[0]
		versions := map[string]bool{}
		for _, k := range h.keys {
			if k.Client == value.Text && k.Version != value.Detail {
				versions[k.Version] = true
			}
		}
		for version := range versions {
			s := h.series(c.measure, func(k *Key) bool { return k.Client == value.Text && k.Version == version })
			from, to := c.at.from, c.at.to
			gone := h.callsOf([]Part{{DimensionVersion, []Value{{value.Text, version}}}}, c.at) == 0
			if gone {
				from, to = c.at.beforeFrom, c.at.beforeTo
			}
			if _, calls := s.in(from, to); calls > 0 {
				c.Others = append(c.Others, OtherVersion{version, natural(c.measure, s, from, to), gone})
			}
		}
		order.By(c.Others, func(a, b *OtherVersion) bool { return a.Version > b.Version })
		c.Others = c.Others[:min(len(c.Others), 2)]
	}
}

// nearSteps is how far apart the beginnings of two changes may be that belong together.
const nearSteps = 3 * stepsPerMinute

// mostChanges is how many changes are shown.
const mostChanges = 20

// ranked sorts changes, and removes those that say the same again.
func ranked(list []Change) (kept []Change) {
	for i := range list {
		if slices.ContainsFunc(list, func(o Change) bool { return list[i].follows(&o) }) {
			list[i].rank /= 4
		}
	}
	order.By(list, func(a, b *Change) bool { return a.rank > b.rank })
	for i := range list {
		if len(kept) < mostChanges && !slices.ContainsFunc(kept, func(o Change) bool {
			return o.Measure == list[i].Measure && o.Since.Before(list[i].Until) && list[i].Since.Before(o.Until) && overlap(o.Parts, list[i].Parts)
		}) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// follows reports whether a change is only the effect of another one: calls wait, and are rejected for
// overload, because others run for longer or are more; stored answers are lost because others are larger or
// more; and calls that end in another way take another time.
func (c *Change) follows(other *Change) bool {
	if !together(c, other) {
		return false
	}
	waits := func(c *Change) bool {
		return c.Measure == MeasureQueued || c.Measure == MeasureRejected && c.Reason == "overload"
	}
	switch {
	case other.Measure == MeasureExpired: // of earlier calls
		return false
	case other.measure.kind == kindShare:
		return !waits(other) && c.measure.kind != kindShare && overlap(c.Parts, other.Parts)
	case waits(c):
		return !waits(other)
	default:
		return c.lostRoom() && other.After > other.Before && (other.Measure == MeasureAnswerBytes || other.Measure == MeasureCalls)
	}
}

func together(a, b *Change) bool { return a.Since.Sub(b.Since).Abs() <= stepsTime(nearSteps) }

// overlap reports whether two parts of the traffic can have common calls.
func overlap(a, b []Part) bool {
	for _, p := range a {
		for _, q := range b {
			if p.Dimension == q.Dimension && !slices.ContainsFunc(p.Values, func(v Value) bool { return slices.Contains(q.Values, v) }) {
				return false
			}
		}
	}
	return true
}

// lostRoom reports whether stored answers were lost because later events needed their room.
func (c *Change) lostRoom() bool {
	return c.Measure == MeasureExpired && strings.HasPrefix(c.Reason, "max_event")
}
