package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for a person at a terminal. Write errors are the
// reader's going away.
func (rep *Requests) WriteText(w io.Writer) {
	var states []string
	for _, state := range States() {
		states = append(states, fmt.Sprintf("%s %d", state, rep.InFlight[state]))
	}
	fmt.Fprintf(w, "%s  in flight: %d (%s)\n", rep.At.Format(time.RFC3339),
		len(rep.Requests)+len(rep.Subscriptions), strings.Join(states, ", "))
	if r := rep.Readiness; r != nil {
		fmt.Fprintf(w, "%s since %s  %s\n", r.State, r.Since.Format(time.RFC3339), r.Why)
	}
	rep.writeCallers(w)
	if len(rep.Requests) > 0 {
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "AGE\tSTATE\tMETHOD\tTOOL\tID\tCLIENT\tTRANSPORT\tSESSION\tDEADLINE IN\tCANCELLED\tTRACE")
		for i := range rep.Requests {
			r := &rep.Requests[i]
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", seconds(r.AgeSeconds), r.State, r.Method, dash(r.Tool),
				r.ID, dash(who(r.Principal, r.Client)), r.Transport, dash(r.Session), seconds(r.DeadlineSeconds), r.cancelText(), dash(r.TraceID))
		}
		_ = tw.Flush()
	}
	if len(rep.Subscriptions) > 0 {
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "SUBSCRIBED FOR\tSTATE\tID\tCLIENT\tTRANSPORT\tREMOTE\tSESSION\tCANCELLED\tTRACE")
		for i := range rep.Subscriptions {
			r := &rep.Subscriptions[i]
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", seconds(r.AgeSeconds), r.State, r.ID, dash(who(r.Principal, r.Client)),
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
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", s.Session, s.Transport, dash(who(s.Principal, s.Client)), dash(s.ProtocolVersion),
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

func (r *Request) cancelText() string {
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

// writeCallers writes the callers for a person at a terminal.
func (rep *Requests) writeCallers(w io.Writer) {
	if len(rep.Callers) == 0 {
		return
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "CALLER\tPRINCIPAL\tFROM\tREQUESTS\tQUEUED\tOLDEST\tSUBSCRIPTIONS\tSESSIONS")
	for i := range rep.Callers {
		c := &rep.Callers[i]
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%s\t%d\t%d\n", dash(c.Client), dash(c.Principal), dash(c.Remote),
			c.Requests, c.Queued, seconds(c.OldestAgeSeconds), c.Subscriptions, c.Sessions)
	}
	_ = tw.Flush()
	if rep.CallersLeftOut > 0 {
		fmt.Fprintf(w, "and %d callers with less\n", rep.CallersLeftOut)
	}
}

// writeTasks writes the tasks for a person at a terminal.
func (rep *Requests) writeTasks(w io.Writer) {
	if len(rep.Tasks) == 0 {
		return
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "TASK FOR\tTASK\tTOOL\tPRINCIPAL\tENDS IN\tCANCELLED\tTRACE")
	for i := range rep.Tasks {
		t := &rep.Tasks[i]
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", seconds(t.AgeSeconds), t.Task, t.Tool, dash(t.Principal), seconds(t.LifeSeconds),
			cancelText(t.CancelCause, t.CancelledForSeconds, t.Abandoned), dash(t.TraceID))
	}
	_ = tw.Flush()
}

// who names a caller in one word: its principal, and what the client calls itself.
func who(principal, client string) string {
	switch {
	case principal == "":
		return client
	case client == "":
		return principal
	}
	return principal + " by " + client
}
