package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the list for a person at a terminal. Write errors are the reader's
// going away.
func (rep *Traces) WriteText(w io.Writer) {
	var classes []string
	for _, class := range slices.Sorted(maps.Keys(rep.Kept)) {
		classes = append(classes, fmt.Sprintf("%s %d", class, rep.Kept[class]))
	}
	fmt.Fprintf(w, "%s  kept: %s\n\n", rep.At.Format(time.RFC3339), dash(strings.Join(classes, ", ")))
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "N\tAT\tTOOK\tCLASS\tOUTCOME\tMETHOD\tTOOL\tID\tCLIENT\tWHY\tTRACE")
	for i := range rep.Traces {
		r := &rep.Traces[i]
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.At.Format("15:04:05.000"), fine(r.Seconds),
			r.Class, dash(r.Outcome), r.Method, dash(r.Tool), r.RequestID, dash(who(r.Principal, r.Client)), dash(r.why()), dash(r.TraceID))
	}
	_ = tw.Flush()
}

// WriteText writes one request and its spans, with a bar for each.
func (d *TraceDetail) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s %s  %s  %s  took %s  %s\n", d.Method, d.Tool, d.At.Format(time.RFC3339Nano), d.Class, fine(d.Seconds), dash(d.Outcome))
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, line := range [][2]string{
		{"why", d.why()}, {"error", d.Error}, {"principal", strings.TrimSpace(d.Principal + " " + d.Tenant)}, {"cancelled", d.cancelText()}, {"dropped", d.DropReason}, {"id", d.RequestID}, {"session", d.Session},
		{"client", strings.TrimSpace(d.Client + " " + d.ClientVersion)}, {"from", strings.TrimSpace(d.Transport + " " + d.Remote)},
		{"revision", d.ProtocolVersion}, {"trace", d.TraceID},
	} {
		if line[1] != "" {
			fmt.Fprintf(tw, "%s\t%s\n", line[0], line[1])
		}
	}
	_ = tw.Flush()
	fmt.Fprintln(w)
	from, to := d.extent()
	tw = tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, p := range d.Phases {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", p.Phase, fine(p.AfterSeconds), fine(p.Seconds), bar(p.AfterSeconds, p.Seconds, from, to))
	}
	for i := range d.Spans {
		s := &d.Spans[i]
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", s.Name, fine(s.AfterSeconds), fine(s.Seconds), bar(s.AfterSeconds, s.Seconds, from, to))
	}
	_ = tw.Flush()
	if d.SpansLeftOut > 0 {
		fmt.Fprintf(w, "%d spans were left out\n", d.SpansLeftOut)
	}
}

func (row *Trace) cancelText() string {
	if row.CancelCause == "" {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%s after %s %s", row.CancelCause, fine(row.CancelledAfterSeconds), row.CancelDetail))
}

// extent returns the time that the bars share.
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

// bar draws a time within the extent of all.
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

// fine writes seconds with a precision that suits them.
func fine(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// why returns what explains best how a request ended, or "".
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
