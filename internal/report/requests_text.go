package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// WriteText writes the page as text.
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
	rep.writeRequests(w)
	rep.writeRest(w)
	rep.Totals.writeText(w)
}

// writeCallers writes the callers with the most requests.
func (rep *Requests) writeCallers(w io.Writer) {
	writeSection(w, "CALLER\tPRINCIPAL\tFROM\tREQUESTS\tQUEUED\tOLDEST\tSUBSCRIPTIONS\tSESSIONS", len(rep.Callers), func(i int) []any {
		c := &rep.Callers[i]
		return []any{
			dash(c.Client), dash(c.Principal), dash(c.Remote),
			c.Requests, c.Queued, seconds(c.OldestAgeSeconds), c.Subscriptions, c.Sessions,
		}
	})
	if rep.CallersLeftOut > 0 {
		fmt.Fprintf(w, "and %d callers with less\n", rep.CallersLeftOut)
	}
}

// writeRequests writes the requests and the subscriptions.
func (rep *Requests) writeRequests(w io.Writer) {
	writeSection(w, "AGE\tSTATE\tMETHOD\tTOOL\tID\tCLIENT\tTRANSPORT\tSESSION\tDEADLINE IN\tCANCELLED\tTRACE", len(rep.Requests), func(i int) []any {
		r := &rep.Requests[i]
		return []any{
			seconds(r.AgeSeconds), r.State, r.Method, dash(r.Tool), r.ID, dash(who(r.Principal, r.Client)), r.Transport,
			dash(r.Session), seconds(r.DeadlineSeconds), r.cancelText(), dash(r.TraceID),
		}
	})
	writeSection(w, "SUBSCRIBED FOR\tSTATE\tID\tCLIENT\tTRANSPORT\tREMOTE\tSESSION\tCANCELLED\tTRACE", len(rep.Subscriptions), func(i int) []any {
		r := &rep.Subscriptions[i]
		return []any{
			seconds(r.AgeSeconds), r.State, r.ID, dash(who(r.Principal, r.Client)), r.Transport,
			dash(r.Remote), dash(r.Session), r.cancelText(), dash(r.TraceID),
		}
	})
}

// writeRest writes the tasks, the questions to clients, and the sessions.
func (rep *Requests) writeRest(w io.Writer) {
	writeSection(w, "TASK FOR\tTASK\tTOOL\tPRINCIPAL\tENDS IN\tCANCELLED\tTRACE", len(rep.Tasks), func(i int) []any {
		t := &rep.Tasks[i]
		return []any{
			seconds(t.AgeSeconds), t.Task, t.Tool, dash(t.Principal), seconds(t.LifeSeconds),
			cancelText(t.CancelCause, t.CancelledForSeconds, t.Abandoned), dash(t.TraceID),
		}
	})
	writeSection(w, "AGE\tASKED OF CLIENT\tID\tSESSION\tFOR REQUEST\tTOOL\tTRACE", len(rep.Outbound), func(i int) []any {
		o := &rep.Outbound[i]
		return []any{seconds(o.AgeSeconds), o.Method, o.ID, o.Session, dash(o.RequestID), dash(o.Tool), dash(o.TraceID)}
	})
	writeSection(w, "SESSION\tTRANSPORT\tCLIENT\tREVISION\tREMOTE\tAGE\tIDLE\tREQUESTS", len(rep.Sessions), func(i int) []any {
		s := &rep.Sessions[i]
		return []any{
			s.Session, s.Transport, dash(who(s.Principal, s.Client)), dash(s.ProtocolVersion),
			dash(s.Remote), seconds(s.AgeSeconds), seconds(s.IdleSeconds), s.Requests,
		}
	})
}

func (t *Totals) writeText(w io.Writer) {
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
