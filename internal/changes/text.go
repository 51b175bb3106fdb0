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
	fmt.Fprintf(&b, "%s %s (%s, before %s)", c.difference(), c.Measure, c.counted(), valueText(c.Measure, c.Before, ""))
	if parts := c.partsText(); parts != "" {
		fmt.Fprintf(&b, "; %.0f %% of the change: %s", 100*c.Share, parts)
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
	return fmt.Sprintf("%s (%.0f %% of these)", text, 100*share)
}

// counted formats After, with the number of calls if it is a share.
func (c *Change) counted() string {
	of := " of all calls"
	if len(c.Parts) > 0 {
		of = " of these calls"
	}
	after := valueText(c.Measure, c.After, of)
	if c.Count == 0 {
		return after
	}
	return fmt.Sprintf("%d, %s", c.Count, after)
}

// valueText formats a value of a measure. of says of which calls it is a share.
func valueText(measure string, v float64, of string) string {
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
		return "none" + of
	}
	return fmt.Sprintf("%.3g %%%s", 100*v, of)
}

func (c *Change) partsText() string {
	var texts []string
	for _, part := range c.Parts {
		text := part.valuesText()
		if part.Dimension == DimensionVersion && len(c.Others) > 0 {
			var others []string
			for _, o := range c.Others {
				others = append(others, o.text(c.Measure))
			}
			text += " (" + strings.Join(others, ", ") + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// text says what a measure of the calls of the version is.
func (o *OtherVersion) text(measure string) string {
	value := valueText(measure, o.Value, " of its calls")
	if o.Gone {
		return o.Version + " calls no more, before " + value
	}
	return o.Version + ": " + value
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
