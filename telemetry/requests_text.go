package telemetry

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// writeText writes the report for a person at a terminal. Write errors are the
// reader's going away.
func (rep *Report) writeText(w io.Writer) {
	var states []string
	for _, state := range session.States() {
		states = append(states, fmt.Sprintf("%s %d", state, rep.InFlight[state]))
	}
	fmt.Fprintf(w, "%s  in flight: %d (%s)\n", rep.At.Format(time.RFC3339),
		len(rep.Requests)+len(rep.Subscriptions), strings.Join(states, ", "))
	rep.writeCallers(w)
	if len(rep.Requests) > 0 {
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "AGE\tSTATE\tMETHOD\tTOOL\tID\tCLIENT\tTRANSPORT\tSESSION\tDEADLINE IN\tCANCELLED\tTRACE")
		for i := range rep.Requests {
			r := &rep.Requests[i]
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", seconds(r.AgeSeconds), r.State, r.Method, dash(r.Tool),
				r.ID, dash(r.Client), r.Transport, dash(r.Session), seconds(r.DeadlineSeconds), r.cancelText(), dash(r.TraceID))
		}
		_ = tw.Flush()
	}
	if len(rep.Subscriptions) > 0 {
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "SUBSCRIBED FOR\tSTATE\tID\tCLIENT\tTRANSPORT\tREMOTE\tSESSION\tCANCELLED\tTRACE")
		for i := range rep.Subscriptions {
			r := &rep.Subscriptions[i]
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", seconds(r.AgeSeconds), r.State, r.ID, dash(r.Client),
				r.Transport, dash(r.Remote), dash(r.Session), r.cancelText(), dash(r.TraceID))
		}
		_ = tw.Flush()
	}
	rep.writeTasks(w)
	if len(rep.Outbound) > 0 {
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "AGE\tASKED OF CLIENT\tID\tSESSION\tFOR REQUEST\tTOOL\tTRACE")
		for i := range rep.Outbound {
			o := &rep.Outbound[i]
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", seconds(o.AgeSeconds), o.Method, o.ID, o.Session,
				dash(o.RequestID), dash(o.Tool), dash(o.TraceID))
		}
		_ = tw.Flush()
	}
	if len(rep.Sessions) > 0 {
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "SESSION\tTRANSPORT\tCLIENT\tREVISION\tREMOTE\tAGE\tIDLE\tREQUESTS")
		for i := range rep.Sessions {
			s := &rep.Sessions[i]
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", s.Session, s.Transport, dash(s.Client), dash(s.ProtocolVersion),
				dash(s.Remote), seconds(s.AgeSeconds), seconds(s.IdleSeconds), s.Requests)
		}
		_ = tw.Flush()
	}
	t := &rep.Totals
	fmt.Fprintf(w, "\nsince the start: admitted %d, sent %d, stored %d, panics %d\n", t.Admitted, t.Sent, t.Stored, t.Panics)
	for _, group := range []struct {
		name   string
		counts map[string]uint64
	}{
		{"received", t.Received}, {"rejected", t.Rejected}, {"dropped", t.Dropped},
		{"cancelled", t.Cancelled}, {"abandoned", t.Abandoned},
	} {
		fmt.Fprintf(w, "%s: %s\n", group.name, countsText(group.counts))
	}
}

func (r *ReportRequest) cancelText() string {
	return cancelText(r.CancelCause, r.CancelledForSeconds, r.Abandoned)
}

func cancelText(cause string, ago float64, abandoned bool) string {
	text := "-"
	if cause != "" {
		text = cause + " " + seconds(ago) + " ago"
	}
	if abandoned {
		text += ", abandoned"
	}
	return text
}

// countsText lists the counts that are not zero.
func countsText(counts map[string]uint64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[k]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, n))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

func dash(s string) string { return cmp.Or(s, "-") }
