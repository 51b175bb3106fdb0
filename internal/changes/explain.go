package changes

import (
	"cmp"
	"math"
	"slices"
)

// The dimensions of the traffic.
const (
	DimensionClient    = "client"
	DimensionVersion   = "version" // of a client; a value has both
	DimensionPrincipal = "principal"
	DimensionTool      = "tool" // the method, and the target if there is one
)

// A Part is a part of the traffic: the calls with one of some values in a dimension.
type Part struct {
	Dimension string
	Values    []Value
}

// A Value is a value of a dimension. Of a version, Detail is the version and Text the client; of a tool,
// Detail is the target and Text the method.
type Value struct{ Text, Detail string }

var dimensions = []string{DimensionVersion, DimensionClient, DimensionPrincipal, DimensionTool}

// valueOf returns the value of a key in a dimension.
func valueOf(k *Key, dimension string) Value {
	switch dimension {
	case DimensionClient:
		return Value{Text: k.Client}
	case DimensionVersion:
		return Value{k.Client, k.Version}
	case DimensionPrincipal:
		return Value{Text: k.Principal}
	}
	return Value{k.Method, k.Target}
}

func (p *Part) has(k *Key) bool { return slices.Contains(p.Values, valueOf(k, p.Dimension)) }

func inAll(parts []Part, k *Key) bool {
	for i := range parts {
		if !parts[i].has(k) {
			return false
		}
	}
	return true
}

// A row is what the calls of one caller of one tool contribute to a change.
type row struct {
	key                                  Key // without an end
	sumBefore, callsBefore, sum, callsIn float64
	excess                               float64 // of the sum over what was expected
}

// rows returns the contributions to a change of a measure in the calls that match.
func (h *History) rows(m *measure, at span, matches func(*Key) bool) (rows []*row) {
	byKey := map[Key]*row{}
	for _, k := range h.keys {
		if !matches(&k.Key) {
			continue
		}
		base := k.Key
		base.Outcome, base.Reason, base.Phase = "", "", ""
		r := byKey[base]
		if r == nil {
			r = &row{key: base}
			byKey[base] = r
			rows = append(rows, r)
		}
		k.each(m, func(step int, sum, calls float64) {
			switch {
			case step >= at.beforeFrom && step < at.beforeTo:
				r.sumBefore, r.callsBefore = r.sumBefore+sum, r.callsBefore+calls
			case step >= at.from && step < at.to:
				r.sum, r.callsIn = r.sum+sum, r.callsIn+calls
			}
		})
	}
	expect(m, at, rows)
	return rows
}

// expect sets how much each row has beyond what its own calls before lead to expect. If there are few of
// them, those of all callers of the tool are used, and then those of all tools. So a change of the mix of
// the traffic is no change of a share or a mean.
func expect(m *measure, at span, rows []*row) {
	if m.kind == kindRate {
		longer := float64(at.to-at.from) / float64(at.beforeTo-at.beforeFrom)
		for _, r := range rows {
			r.excess = r.sum - r.sumBefore*longer
		}
		return
	}
	type level struct{ sum, calls float64 }
	all, tools := level{}, map[Value]level{}
	for _, r := range rows {
		tool := valueOf(&r.key, DimensionTool)
		of := tools[tool]
		tools[tool] = level{of.sum + r.sumBefore, of.calls + r.callsBefore}
		all.sum, all.calls = all.sum+r.sumBefore, all.calls+r.callsBefore
	}
	each := all.sum / max(all.calls, 1)
	for _, r := range rows {
		of := tools[valueOf(&r.key, DimensionTool)]
		if of.calls == 0 && m.kind != kindShare {
			continue // a new tool: nothing is known
		}
		ofTool := (of.sum + callsOfALevel*each) / (of.calls + callsOfALevel)
		if m.kind != kindShare {
			ofTool = of.sum / of.calls
		}
		r.excess = r.sum - r.callsIn*(r.sumBefore+callsOfALevel*ofTool)/(r.callsBefore+callsOfALevel)
	}
}

// What an explanation is.
const (
	enough     = 0.75 // part of a change that is explained
	mostParts  = 4
	mostValues = 3
)

// explain finds the smallest part of the traffic that has most of the change of the rows.
func explain(m *measure, rows []*row) (parts []Part) {
	total := totalOf(rows)
	in := rows
	for len(parts) < mostParts {
		best := candidate{}
		for _, dimension := range dimensions {
			if !slices.ContainsFunc(parts, func(p Part) bool {
				return p.Dimension == dimension || p.Dimension == DimensionVersion && dimension == DimensionClient
			}) {
				best = best.better(bestIn(m, in, dimension, total))
			}
		}
		if best.part.Dimension == "" {
			break
		}
		parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Dimension == DimensionClient && best.part.Dimension == DimensionVersion })
		parts = append(parts, best.part)
		in = slices.DeleteFunc(slices.Clone(in), func(r *row) bool { return !best.part.has(&r.key) })
	}
	return parts
}

func totalOf(rows []*row) (sum float64) {
	for _, r := range rows {
		sum += r.excess
	}
	return sum
}

// weightOf is the number of calls in which the change is looked for.
func weightOf(m *measure, rows []*row) (calls float64) {
	for _, r := range rows {
		switch {
		case m.kind == kindRate:
			calls += max(r.sumBefore, r.sum)
		case m.name == MeasureExpired: // of a client that has gone away there are calls only before
			calls += r.callsBefore + r.callsIn
		default:
			calls += r.callsIn
		}
	}
	return calls
}

// A candidate is a part of the traffic with a part of the change.
type candidate struct {
	part         Part
	share, calls float64
}

// gain is how much more of the change than of the calls the part has. Each further value costs something.
func (c *candidate) gain() float64 { return c.share - c.calls - 0.1*float64(len(c.part.Values)-1) }

func (c candidate) better(other candidate) candidate {
	if c.part.Dimension == "" || other.part.Dimension != "" && other.gain() > c.gain()+0.01 {
		return other
	}
	return c
}

// bestIn returns the values of a dimension that have most of the change, or none if no few values do.
// total is the whole change.
func bestIn(m *measure, rows []*row, dimension string, total float64) candidate {
	type sum struct {
		value         Value
		excess, calls float64
		before, in    float64 // calls before and after the change began
	}
	byValue := map[Value]*sum{}
	var sums []*sum
	here, calls := totalOf(rows)/total, weightOf(m, rows)
	for _, r := range rows {
		v := valueOf(&r.key, dimension)
		s := byValue[v]
		if s == nil {
			s = &sum{value: v}
			byValue[v] = s
			sums = append(sums, s)
		}
		s.excess += r.excess / total
		s.calls += weightOf(m, []*row{r}) / max(calls, 1)
		s.before, s.in = s.before+r.callsBefore, s.in+r.callsIn
	}
	slices.SortFunc(sums, func(a, b *sum) int {
		return cmp.Or(cmp.Compare(b.excess, a.excess), cmp.Compare(a.value.Text, b.value.Text), cmp.Compare(a.value.Detail, b.value.Detail))
	})
	best, c := candidate{}, candidate{part: Part{Dimension: dimension}}
	for _, s := range sums[:min(len(sums), mostValues)] {
		c.part.Values = append(slices.Clone(c.part.Values), s.value)
		c.share += s.excess / here
		c.calls += s.calls
		if s.excess/here < 0.1 {
			break
		}
		// A new version may have all calls of its client.
		fresh := dimension == DimensionVersion && len(c.part.Values) == 1 && s.before < 0.1*s.in
		if len(c.part.Values) < len(sums) && c.share >= enough && (fresh || 1-c.share <= 0.5*(1-c.calls)) {
			best = best.better(c)
		}
	}
	return best
}

// likely returns the reason and the phase that most of the new ends of a measure have, and their part of
// the change.
func (h *History) likely(m *measure, at span, parts []Part) (reason, phase string, reasonShare, phaseShare float64) {
	reasons, phases := map[string]float64{}, map[string]float64{}
	longer := float64(at.to-at.from) / float64(max(at.beforeTo-at.beforeFrom, 1))
	total := 0.0
	for _, k := range h.keys {
		if !inAll(parts, &k.Key) {
			continue
		}
		excess := 0.0
		k.each(m, func(step int, sum, _ float64) {
			switch {
			case step >= at.beforeFrom && step < at.beforeTo:
				excess -= sum * longer
			case step >= at.from && step < at.to:
				excess += sum
			}
		})
		if excess != 0 {
			total += excess
			reasons[k.Reason] += excess
			phases[k.Phase] += excess
		}
	}
	reason, phase = largest(reasons), largest(phases)
	return reason, phase, math.Min(reasons[reason]/total, 1), math.Min(phases[phase]/total, 1)
}

func largest(values map[string]float64) (best string) {
	first := true
	for v, n := range values {
		if first || n > values[best] || n == values[best] && v < best {
			best, first = v, false
		}
	}
	return best
}
