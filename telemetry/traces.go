package telemetry

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/order"
	"github.com/vitrine-mcp/vitrine/internal/report"
)

// TracesHandler serves the recent traces: requests that have ended, from memory. There is a bounded
// ring for each class: abandoned, panic, cancelled, dropped, rejected, error, caller_error and subscription. Of
// the ordinary requests there are the slowest of each method and target, and one per second of
// each. It needs no exporter and no sampled traces.
//
// Without a path value "id" it answers with a list. The query may have a limit (100, at most 1000)
// and the fields class, method, tool, client, client_version, principal, tenant, session,
// concurrency_class, outcome, cause and reason: only requests with these texts are listed, and "-"
// stands for none. With since and until, as in 2026-03-04T12:00:00Z, only requests that ended from then on,
// or before, are listed. With group=tool,client and the like it counts requests with the same texts in these
// fields together. With an id it answers with one request and its spans. The id is that of a row of
// the list, or a trace id, which stands for the latest request of that trace. Both are JSON, or text
// as with [Telemetry.RequestsHandler].
func (t *Telemetry) TracesHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !readOnly(w, req) {
			return
		}
		if id := req.PathValue("id"); id != "" {
			t.serveTrace(w, req, id)
			return
		}
		filter, err := newTraceFilter(req.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if filter.group != nil {
			report.Write(w, req, t.groupedTraces(&filter))
			return
		}
		report.Write(w, req, t.traces(&filter))
	})
}

// latest returns all recent traces, the newest first.
func (t *Telemetry) latest() []*record {
	if !t.Enabled() {
		return nil
	}
	list := t.recent.all()
	slices.SortFunc(list, func(a, b *record) int { return cmp.Compare(b.seq, a.seq) })
	return list
}

func (t *Telemetry) traces(filter *traceFilter) *report.Traces {
	rep := &report.Traces{At: time.Now(), Kept: map[string]int{}, Traces: []report.Trace{}}
	if t.Enabled() {
		rep.Kept, rep.Full = t.recent.counts(), t.recent.full()
	}
	for _, k := range t.latest() {
		if len(rep.Traces) == filter.limit {
			break
		}
		if filter.selects(k) {
			rep.Traces = append(rep.Traces, k.row())
		}
	}
	return rep
}

func (t *Telemetry) serveTrace(w http.ResponseWriter, req *http.Request, id string) {
	for _, k := range t.latest() {
		if !k.named(id) {
			continue
		}
		row := k.row()
		spans, leftOut := t.recent.spans.of(k.spans)
		detail := &report.TraceDetail{Trace: row, Spans: []report.Span{}, SpansLeftOut: leftOut}
		detail.Attempts, detail.AttemptsInFlight = t.attempts(k)
		for _, span := range spans {
			detail.Spans = append(detail.Spans, span.since(row.At))
		}
		detail.Outgoing = report.OutgoingOf(detail.Spans)
		order.By(detail.Spans, func(a, b *report.Span) bool { return a.AfterSeconds < b.AfterSeconds })
		report.Write(w, req, detail)
		return
	}
	http.Error(w, "this request is not kept, or not any more", http.StatusNotFound)
}
