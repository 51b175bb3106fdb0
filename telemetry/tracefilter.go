package telemetry

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	conditions []traceCondition
	limit      int
	group      []field[*record] // nil: the records are listed
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
// several values those with one of these. The error says what is wrong with the query, and lists the fields.
func newTraceFilter(query url.Values) (traceFilter, error) {
	f, fields := traceFilter{limit: defaultTraces}, recordFields()
	known := []string{"limit", "format", "group"}
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
	if text := query.Get("group"); text != "" {
		var err error
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

// selects reports whether a record meets all conditions.
func (f *traceFilter) selects(k *record) bool {
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
