package telemetry

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// recordFields lists the fields of records.
func recordFields() []field[*record] {
	return []field[*record]{
		{"class", func(k *record) string { return k.class }},
		{"method", func(k *record) string { return k.method }},
		{"tool", func(k *record) string { return k.series.key.target }},
		{"client", func(k *record) string { return k.client }},
		{"client_version", func(k *record) string { return k.clientVersion }},
		{"principal", func(k *record) string { return k.principal }},
		{"tenant", func(k *record) string { return k.tenant }},
		{"session", func(k *record) string { return k.session }},
		{"concurrency_class", func(k *record) string { return k.concurrencyClass }},
		{"outcome", (*record).outcome},
		{"cause", func(k *record) string { return string(k.cause) }},
		{"reason", (*record).reason},
	}
}

// noText stands for an empty text in filters and in tables.
const noText = "-"

// A traceFilter selects records: all its conditions must hold.
type traceFilter struct {
	conditions   []traceCondition
	since, until time.Time // when they ended; until is not included. Zero: at any time
	limit        int
	group        []field[*record] // nil: the records are listed
	classes      []string         // that were asked for; nil: all
}

// A traceCondition says which texts a field may have. Records have some texts in short, so that the list has
// both forms.
type traceCondition struct {
	of    func(k *record) string
	texts []string
}

const (
	defaultTraces = 100
	maxTraces     = 1000
)

// newTraceFilter reads the filter of a query. Fields that are absent or empty select all requests, fields with
// several values those with one of these, and since and until those that ended then. The error says what is wrong with the query, and lists the fields.
func newTraceFilter(query url.Values) (traceFilter, error) {
	f, fields := traceFilter{limit: defaultTraces}, recordFields()
	known := []string{"limit", "format", "group", "since", "until"}
	for _, field := range fields {
		known = append(known, field.name)
		c := traceCondition{of: field.of}
		for _, value := range query[field.name] {
			switch {
			case value == "":
				continue
			case value == noText:
				value = ""
			case field.name == "class" && !slices.Contains(recentClasses(), value):
				return f, fmt.Errorf("there is no class %q: want one of %s", value, strings.Join(recentClasses(), ", "))
			}
			if field.name == "class" {
				f.classes = append(f.classes, value)
			}
			c.texts = append(c.texts, value, logline.Printable(value, maxName))
		}
		if len(c.texts) > 0 {
			f.conditions = append(f.conditions, c)
		}
	}
	for name := range query {
		if !slices.Contains(known, name) {
			return f, fmt.Errorf("there is no filter %q: want some of %s", name, strings.Join(known, ", "))
		}
	}
	var err error
	if f.since, err = timeOf(query, "since"); err != nil {
		return f, err
	}
	if f.until, err = timeOf(query, "until"); err != nil {
		return f, err
	}
	if text := query.Get("group"); text != "" {
		if f.group, err = chosen(fields, text); err != nil {
			return f, err
		}
	}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return f, errors.New("limit: want a positive whole number")
		}
		f.limit = min(n, maxTraces)
	}
	return f, nil
}

// mayBe reports whether the filter selects requests of a class.
func (f *traceFilter) mayBe(class string) bool {
	return len(f.classes) == 0 || slices.Contains(f.classes, class)
}

// timeOf reads a time of a query. It is zero if the query does not have it.
func timeOf(query url.Values, name string) (time.Time, error) {
	text := query.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: want a time such as 2026-03-04T12:00:00Z, not %q", name, text)
	}
	return at, nil
}

// selects reports whether a record meets all conditions.
func (f *traceFilter) selects(k *record) bool {
	if k.ended.Before(f.since) || !f.until.IsZero() && !k.ended.Before(f.until) {
		return false
	}
	for i := range f.conditions {
		if c := &f.conditions[i]; !slices.Contains(c.texts, c.of(k)) {
			return false
		}
	}
	return true
}

// outcome returns what happened to the answer; see [report.Trace].
func (k *record) outcome() string {
	if k.rejected != "" {
		return outcomeRejected
	}
	return string(k.fate)
}

// reason returns why the request was rejected, or else why its answer was dropped.
func (k *record) reason() string { return cmp.Or(string(k.rejected), string(k.dropped)) }
