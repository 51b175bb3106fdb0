package changes

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Text says in one line what has changed, with times in a place.
func (c *Change) Text(place *time.Location) string {
	var b strings.Builder
	clock := func(t time.Time) string { return t.In(place).Format("15:04:05") }
	if c.Lasts {
		fmt.Fprintf(&b, "since %s (still so at %s): ", clock(c.Since), clock(c.Until))
	} else {
		fmt.Fprintf(&b, "%s to %s: ", clock(c.Since), clock(c.Until))
	}
	fmt.Fprintf(&b, "%s %s (%s, before %s)", c.difference(), c.Measure, c.counted(), c.value(c.Before))
	if parts := c.partsText(); parts != "" {
		fmt.Fprintf(&b, "; %.0f %% of it: %s", 100*c.Share, parts)
	}
	if c.ReasonShare >= enough && c.Reason != "" {
		fmt.Fprintf(&b, ", %s", mostly(c.Reason, c.ReasonShare))
	}
	if c.PhaseShare >= enough && c.Phase != "" {
		fmt.Fprintf(&b, ", phase %s", mostly(c.Phase, c.PhaseShare))
	}
	if !c.First.IsZero() {
		fmt.Fprintf(&b, "; %s first seen at %s", c.New.valuesText(), clock(c.First))
	}
	return b.String()
}

// difference is the change as a percentage of the value before.
func (c *Change) difference() string {
	if c.Before <= 0 {
		return "new"
	}
	return fmt.Sprintf("%+.0f %%", 100*(c.After/c.Before-1))
}

// mostly returns a reason or a phase, with its share if others have one, too.
func mostly(text string, share float64) string {
	if share >= 0.995 {
		return text
	}
	return fmt.Sprintf("%s (%.0f %%)", text, 100*share)
}

// counted formats After, with the number of calls if it is a share.
func (c *Change) counted() string {
	if c.Count == 0 {
		return c.value(c.After)
	}
	return fmt.Sprintf("%d, %s", c.Count, c.value(c.After))
}

// value formats Before and After.
func (c *Change) value(v float64) string { return valueText(c.Measure, v) }

func valueText(measure string, v float64) string {
	switch measure {
	case MeasureExpired:
		if v == 0 {
			return "none"
		}
		return fmt.Sprintf("%.3g a second", v)
	case MeasureCalls:
		return fmt.Sprintf("%.3g a second", v)
	case MeasureAnswerBytes, MeasureRequestBytes:
		return fmt.Sprintf("%.0f a call", math.Round(v))
	case MeasureRunning, MeasureQueued, MeasureBlocked, MeasureWriting:
		return time.Duration(v*float64(time.Second)).Round(10*time.Microsecond).String() + " a call"
	}
	if v == 0 {
		return "none"
	}
	return fmt.Sprintf("%.3g %% of the calls", 100*v)
}

func (c *Change) partsText() string {
	var texts []string
	for _, part := range c.Parts {
		text := part.valuesText()
		if part.Dimension == DimensionVersion && len(c.Others) > 0 {
			var others []string
			for _, o := range c.Others {
				others = append(others, o.Version+": "+c.value(o.Value))
			}
			text += " (" + strings.Join(others, ", ") + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// Texts returns the values as a reader knows them: of a version the client and the version, of a tool its
// name or else the method.
func (p *Part) Texts() (values []string) {
	for _, v := range p.Values {
		values = append(values, p.valueText(v))
	}
	return values
}

func (p *Part) valuesText() string {
	values, name := p.Texts(), p.Dimension
	if name == DimensionVersion {
		name = DimensionClient
	}
	return name + " " + strings.Join(values, " and ")
}

func (p *Part) valueText(v Value) string {
	switch p.Dimension {
	case DimensionVersion:
		return strings.TrimSpace(v.Text + " " + v.Detail)
	case DimensionTool:
		if v.Detail != "" {
			return v.Detail
		}
	}
	if v.Text == "" {
		return "(none)"
	}
	return v.Text
}
