package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// WriteText writes the list as text.
func (rep *Traces) WriteText(w io.Writer) {
	var classes []string
	for _, class := range slices.Sorted(maps.Keys(rep.Kept)) {
		classes = append(classes, fmt.Sprintf("%s %d", class, rep.Kept[class]))
	}
	fmt.Fprintf(w, "%s  kept: %s\n\n", rep.At.Format(time.RFC3339), dash(strings.Join(classes, ", ")))
	WriteTable(w, "N\tAT\tTOOK\tCLASS\tOUTCOME\tMETHOD\tTOOL\tID\tCLIENT\tWHY\tTRACE", len(rep.Traces), func(i int) []any {
		r := &rep.Traces[i]
		return []any{
			r.ID, r.At.Format("15:04:05.000"), fine(r.Seconds), r.Class, dash(r.Outcome), r.Method, dash(r.Tool),
			r.RequestID, dash(who(r.Principal, r.Client)), dash(r.why()), dash(r.TraceID),
		}
	})
}

// WriteText writes one request and its spans as text, with a bar for each.
func (d *TraceDetail) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s %s  %s  %s  took %s  %s\n", d.Method, d.Tool, d.At.Format(time.RFC3339Nano), d.Class, fine(d.Seconds), dash(d.Outcome))
	facts := d.facts()
	WriteTable(w, "", len(facts), func(i int) []any { return []any{facts[i].name, facts[i].text} })
	fmt.Fprintln(w)
	from, to := d.extent()
	line := func(name string, after, took float64) []any {
		return []any{name, fine(after), fine(took), bar(after, took, from, to)}
	}
	WriteTable(w, "", len(d.Phases)+len(d.Spans), func(i int) []any {
		if i < len(d.Phases) {
			return line(d.Phases[i].Phase, d.Phases[i].AfterSeconds, d.Phases[i].Seconds)
		}
		s := &d.Spans[i-len(d.Phases)]
		return line(s.Name, s.AfterSeconds, s.Seconds)
	})
	if d.SpansLeftOut > 0 {
		fmt.Fprintf(w, "%d spans were left out\n", d.SpansLeftOut)
	}
}

// A fact is a line about a request.
type fact struct{ name, text string }

// facts returns the lines with a text.
func (d *TraceDetail) facts() []fact {
	return slices.DeleteFunc([]fact{
		{"why", d.why()}, {"error", d.Error}, {"principal", strings.TrimSpace(d.Principal + " " + d.Tenant)},
		{"cancelled", d.cancelText()}, {"dropped", d.DropReason}, {"id", d.RequestID}, {"session", d.Session},
		{"client", strings.TrimSpace(d.Client + " " + d.ClientVersion)}, {"from", strings.TrimSpace(d.Transport + " " + d.Remote)},
		{"revision", d.ProtocolVersion}, {"trace", d.TraceID},
	}, func(f fact) bool { return f.text == "" })
}

func (row *Trace) cancelText() string {
	if row.CancelCause == "" {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s after %s %s", row.CancelCause, fine(row.CancelledAfterSeconds), row.CancelDetail))
}

// extent returns the time range of all bars.
func (d *TraceDetail) extent() (from, to float64) {
	to = d.Seconds
	for _, p := range d.Phases {
		to = max(to, p.AfterSeconds+p.Seconds)
	}
	for i := range d.Spans {
		from, to = min(from, d.Spans[i].AfterSeconds), max(to, d.Spans[i].AfterSeconds+d.Spans[i].Seconds)
	}
	return from, to
}

// bar draws a time within the range of all bars.
func bar(after, took, from, to float64) string {
	const width = 40
	if to <= from {
		return ""
	}
	begin := int((after - from) / (to - from) * width)
	end := int((after + took - from) / (to - from) * width)
	begin = min(begin, width-1)
	return strings.Repeat(" ", begin) + strings.Repeat("=", max(end-begin, 1))
}

// why returns the best explanation for the end of a request, or "".
func (row *Trace) why() string {
	switch {
	case row.RejectReason != "":
		return row.RejectReason
	case row.Panic != "":
		return row.Panic
	case row.CancelCause != "":
		return row.CancelCause
	case row.DropReason != "":
		return row.DropReason
	case row.ToolError && row.ArgumentFaults != "":
		return "arguments rejected: " + row.ArgumentFaults
	case row.ToolError:
		return "tool_error"
	case row.ErrorCode != 0:
		return strconv.Itoa(row.ErrorCode) + " " + row.ErrorMessage
	}
	return ""
}
