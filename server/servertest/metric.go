package servertest

import (
	"fmt"

	dto "github.com/prometheus/client_model/go"
)

// A series is one metric with its labels.
type series struct{ *dto.Metric }

// Attr returns the value of a label, "" if the series does not have it.
func (s series) Attr(name string) string {
	for _, l := range s.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// value returns the number that stands for the series.
func (s series) value() float64 {
	switch {
	case s.Counter != nil:
		return s.Counter.GetValue()
	case s.Gauge != nil:
		return s.Gauge.GetValue()
	case s.Histogram != nil:
		return float64(s.Histogram.GetSampleCount())
	case s.Summary != nil:
		return float64(s.Summary.GetSampleCount())
	}
	return s.Untyped.GetValue()
}

// String describes the series.
func (s series) String() string {
	var list []string
	for _, l := range s.GetLabel() {
		list = append(list, l.GetName(), l.GetValue())
	}
	return fmt.Sprintf("%v %s", s.value(), joined(list))
}
