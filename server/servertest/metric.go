package servertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// Metric waits until a metric has a value, and fails the test if it never has. The name and
// the labels, given as names and values, are those of Prometheus, such as
// "vitrine_responses_sent_total" and "method". The value is the sum of all series that have
// the labels, and 0 if there are none; the value of a histogram is the number of its
// observations.
//
// The recorder's metrics begin at zero. A name that neither we nor the program's own
// collectors in the registry have, and a label that our metric does not have, end the test.
func (r *Recorder) Metric(tb testing.TB, name string, want float64, labels ...string) {
	tb.Helper()
	r.checkMetric(tb, name, labels)
	var got float64
	if !await(func() bool {
		got = r.sum(name, labels)
		return got == want
	}) {
		tb.Errorf("servertest: metric %s%s is %v, want %v; %s", name, having(labels), got, want, listed("series", r.series(name)))
	}
}

// MetricValue returns what a metric is now, by the rules of [Recorder.Metric], and does not
// wait.
func (r *Recorder) MetricValue(tb testing.TB, name string, labels ...string) float64 {
	tb.Helper()
	r.checkMetric(tb, name, labels)
	return r.sum(name, labels)
}

// checkMetric ends the test if there is no such metric, or it has no such labels.
func (r *Recorder) checkMetric(tb testing.TB, name string, labels []string) {
	tb.Helper()
	pairs(tb, labels)
	if problem := r.unknown(name, labels); problem != "" {
		tb.Fatalf("servertest: %s", problem)
	}
}

// unknown says what is wrong with a name and its labels, "" if nothing is.
func (r *Recorder) unknown(name string, labels []string) string {
	var names []string
	for _, m := range telemetry.Catalogue() {
		names = append(names, m.Name)
		if m.Name != name {
			continue
		}
		var has []string
		for _, l := range m.Labels {
			has = append(has, l.Name)
		}
		for i := 0; i < len(labels); i += 2 {
			if !slices.Contains(has, labels[i]) {
				return fmt.Sprintf("metric %s has no label %q; it has these: %s", name, labels[i], strings.Join(has, ", "))
			}
		}
		return ""
	}
	families := r.gather()
	if slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name }) {
		return ""
	}
	for _, f := range families {
		names = append(names, f.GetName())
	}
	slices.Sort(names)
	return fmt.Sprintf("there is no metric %q; there are these:\n\t%s", name, strings.Join(slices.Compact(names), "\n\t"))
}

// gather returns what can be gathered.
func (r *Recorder) gather() []*dto.MetricFamily {
	families, _ := r.telemetry.Registry().Gather() // what a program's own collector fails with is not ours to tell
	return families
}

// sum adds up the series of a metric that have the labels.
func (r *Recorder) sum(name string, labels []string) (sum float64) {
	for _, s := range r.series(name) {
		if hasAttrs(s, labels) {
			sum += s.value()
		}
	}
	return sum
}

// series returns the series of a metric.
func (r *Recorder) series(name string) (all []series) {
	for _, f := range r.gather() {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			all = append(all, series{m})
		}
	}
	return all
}

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
