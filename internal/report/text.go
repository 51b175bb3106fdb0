package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable writes a table as text. heads has the heads of the columns, separated by tabs, or is "".
// cells returns the cells of a row.
func WriteTable(w io.Writer, heads string, rows int, cells func(row int) []any) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if heads != "" {
		fmt.Fprintln(tw, heads)
	}
	for row := range rows {
		line := cells(row)
		fmt.Fprintf(tw, strings.Repeat("%v\t", len(line)-1)+"%v\n", line...)
	}
	_ = tw.Flush() // an error means that the client has gone away
}

// writeSection writes an empty line and a table. It writes nothing if there are no rows.
func writeSection(w io.Writer, heads string, rows int, cells func(row int) []any) {
	if rows > 0 {
		fmt.Fprintln(w)
		WriteTable(w, heads, rows, cells)
	}
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// fine formats seconds with a precision that depends on the value.
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

func dash(s string) string { return cmp.Or(s, "-") }

// who returns the principal and the client of a caller in one text.
func who(principal, client, version string) string {
	client = strings.TrimSpace(client + " " + version)
	switch {
	case principal == "":
		return client
	case client == "":
		return principal
	}
	return principal + " by " + client
}

// WriteText writes the list as text.
func (rep *Traces) WriteText(w io.Writer) {
	var classes []string
	note := ""
	for _, class := range slices.Sorted(maps.Keys(rep.Kept)) {
		full := ""
		if slices.Contains(rep.Full, class) {
			full, note = " (full)", "; full classes keep the newest (recent_traces)"
		}
		classes = append(classes, fmt.Sprintf("%s %d%s", class, rep.Kept[class], full))
	}
	fmt.Fprintf(w, "%s  kept: %s%s\n\n", rep.At.Format(time.RFC3339), dash(strings.Join(classes, ", ")), note)
	classHead, addClass := optionalColumn("CONCURRENCY CLASS", rep.Traces, func(r *Trace) string { return r.ConcurrencyClass })
	viaHead, addVia := optionalColumn("VIA", rep.Traces, func(r *Trace) string { return r.Via })
	WriteTable(w, "N\tAT\tTOOK\tANSWER BYTES\tCLASS\tOUTCOME\tMETHOD\tTOOL\tID"+classHead+"\tCLIENT"+viaHead+"\tWHY\tTRACE", len(rep.Traces), func(i int) []any {
		r := &rep.Traces[i]
		cells := []any{r.ID, r.At.Format("15:04:05.000"), fine(r.Seconds), answerBytes(r), r.Class, dash(r.Outcome), r.Method, dash(r.Tool), r.RequestID}
		cells = addVia(append(addClass(cells, r), dash(who(r.Principal, r.Client, r.ClientVersion))), r)
		return append(cells, dash(r.WhyInShort()), dash(r.TraceID))
	})
}

// answerBytes is the size of the answer for a cell.
func answerBytes(r *Trace) string {
	if r.AnswerBytes == 0 {
		return "-"
	}
	return strconv.Itoa(r.AnswerBytes)
}

// optionalColumn returns the head of a column with a tab before it, and a function that adds its cell to
// those of a row. A table without a text for it does not have the column.
func optionalColumn[Row any](name string, rows []Row, text func(*Row) string) (head string, add func(cells []any, r *Row) []any) {
	for i := range rows {
		if text(&rows[i]) != "" {
			return "\t" + name, func(cells []any, r *Row) []any { return append(cells, dash(text(r))) }
		}
	}
	return "", func(cells []any, _ *Row) []any { return cells }
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
			return line(strings.TrimSpace(d.Phases[i].Phase+" "+d.Phases[i].Name), d.Phases[i].AfterSeconds, d.Phases[i].Seconds)
		}
		s := &d.Spans[i-len(d.Phases)]
		return line(s.Name, s.AfterSeconds, s.Seconds)
	})
	if d.SpansLeftOut > 0 {
		fmt.Fprintf(w, "%d spans were left out\n", d.SpansLeftOut)
	}
	writeOutgoing(w, d.Outgoing)
}

// A fact is a line about a request.
type fact struct{ name, text string }

// facts returns the lines with a text.
func (d *TraceDetail) facts() []fact {
	return slices.DeleteFunc([]fact{
		{"why", d.why()}, {"error", cmp.Or(d.Error, d.ErrorMessage)}, {"decision", d.decisionText()},
		{"principal", strings.TrimSpace(d.Principal + " " + d.Tenant)},
		{"cancelled", d.cancelText()}, {"dropped", d.DropReason}, {"id", d.RequestID}, {"session", d.Session}, {"concurrency class", d.ConcurrencyClass},
		{"client", strings.TrimSpace(d.Client + " " + d.ClientVersion)}, {"from", strings.TrimSpace(d.Transport + " " + d.Remote)},
		{"via", d.Via}, {"forwarded for", d.ForwardedFor}, {"revision", d.ProtocolVersion}, {"trace", d.TraceID}, {"attempts", d.attemptsText()},
		{"bytes", d.bytesText()},
	}, func(f fact) bool { return f.text == "" })
}

// decisionText says what was decided about the operation, and by which rule.
func (row *Trace) decisionText() string {
	text := row.Decision
	if row.Rule != "" {
		text += " by " + row.Rule
	}
	if row.DecisionReason != "" {
		text += ": " + row.DecisionReason
	}
	return text
}

// bytesText says how large the request and its answer are.
func (row *Trace) bytesText() string {
	if row.RequestBytes == 0 && row.AnswerBytes == 0 {
		return ""
	}
	return fmt.Sprintf("%d asked, %d answered", row.RequestBytes, row.AnswerBytes)
}

// attemptsText says how many requests belong to the trace, if there are several.
func (d *TraceDetail) attemptsText() string {
	if d.Attempts+d.AttemptsInFlight < 2 {
		return ""
	}
	return fmt.Sprintf("%d requests of this trace are kept, %d are in flight", d.Attempts, d.AttemptsInFlight)
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
	rep.writeShares(w)
	writeSection(w, "CONCURRENCY CLASS\tIN USE\tOF\tQUEUED", len(rep.Classes), func(i int) []any {
		c := &rep.Classes[i]
		return []any{c.Class, c.InUse, c.Limit, c.Queued}
	})
	rep.writeRequests(w)
	rep.writeRest(w)
	rep.writeStreams(w)
	rep.writeRegistrations(w)
	rep.Totals.writeText(w)
}

// writeCallers writes the callers with the most requests.
func (rep *Requests) writeCallers(w io.Writer) {
	writeSection(w, "CALLER\tPRINCIPAL\tFROM\tREQUESTS\tQUEUED\tOLDEST\tSUBSCRIPTIONS\tSESSIONS", len(rep.Callers), func(i int) []any {
		c := &rep.Callers[i]
		return []any{
			dash(strings.TrimSpace(c.Client + " " + c.ClientVersion)), dash(c.Principal), dash(c.Remote),
			c.Requests, c.Queued, seconds(c.OldestAgeSeconds), c.Subscriptions, c.Sessions,
		}
	})
	if rep.CallersLeftOut > 0 {
		fmt.Fprintf(w, "and %d callers with less\n", rep.CallersLeftOut)
	}
}

// writeShares writes what callers have of the limits that they share.
func (rep *Requests) writeShares(w io.Writer) {
	writeSection(w, "LIMIT\tTAKEN\tOF\tCALLERS\tWAITING\tMOST\tWHO", len(rep.Shares), func(i int) []any {
		s := &rep.Shares[i]
		return []any{s.Limit, s.Used, s.Size, s.Holding, s.Waiting, s.Largest, dash(s.Caller)}
	})
}

// writeRequests writes the requests and the subscriptions.
func (rep *Requests) writeRequests(w io.Writer) {
	classHead, addClass := optionalColumn("CONCURRENCY CLASS", rep.Requests, func(r *Request) string { return r.ConcurrencyClass })
	viaHead, addVia := optionalColumn("VIA", rep.Requests, func(r *Request) string { return r.Via })
	writeSection(w, "AGE\tSTATE\tMETHOD\tTOOL\tID"+classHead+"\tCLIENT\tTRANSPORT"+viaHead+"\tSESSION\tDEADLINE IN\tCANCELLED\tTRACE\tKEY", len(rep.Requests), func(i int) []any {
		r := &rep.Requests[i]
		cells := addClass([]any{seconds(r.AgeSeconds), r.stateText(), r.Method, dash(r.Tool), r.ID}, r)
		cells = addVia(append(cells, dash(who(r.Principal, r.Client, r.ClientVersion)), r.Transport), r)
		return append(cells, dash(r.Session), seconds(r.DeadlineSeconds), r.cancelText(), dash(r.TraceID), dash(r.Key))
	})
	writeSection(w, "SUBSCRIBED FOR\tSTATE\tID\tCLIENT\tTRANSPORT\tREMOTE\tSESSION\tCANCELLED\tTRACE\tKEY", len(rep.Subscriptions), func(i int) []any {
		r := &rep.Subscriptions[i]
		return []any{
			seconds(r.AgeSeconds), r.State, r.ID, dash(who(r.Principal, r.Client, r.ClientVersion)), r.Transport,
			dash(r.Remote), dash(r.Session), r.cancelText(), dash(r.TraceID), dash(r.Key),
		}
	})
}

// writeRest writes the tasks, the questions to clients, the sessions and the rate limits.
func (rep *Requests) writeRest(w io.Writer) {
	writeSection(w, "TASK FOR\tTASK\tTOOL\tSTATUS\tCLIENT\tPRINCIPAL\tENDS IN\tCANCELLED\tTRACE", len(rep.Tasks), func(i int) []any {
		t := &rep.Tasks[i]
		return []any{
			seconds(t.AgeSeconds), t.name(), t.Tool, dash(t.Status), dash(strings.TrimSpace(t.Client + " " + t.ClientVersion)), dash(t.Principal), seconds(t.LifeSeconds),
			cancelText(t.CancelCause, t.CancelledForSeconds, t.Abandoned), dash(t.TraceID),
		}
	})
	writeSection(w, "AGE\tASKED OF CLIENT\tID\tCLIENT\tSESSION\tFOR REQUEST\tTOOL\tTRACE", len(rep.Outbound), func(i int) []any {
		o := &rep.Outbound[i]
		client := strings.TrimSpace(o.Client + " " + o.ClientVersion)
		return []any{seconds(o.AgeSeconds), o.Method, o.ID, dash(client), o.Session, dash(o.RequestID), dash(o.Tool), dash(o.TraceID)}
	})
	rep.writeQuestions(w)
	writeSection(w, "SESSION\tTRANSPORT\tCLIENT\tREVISION\tREMOTE\tAGE\tIDLE\tREQUESTS\tKEY", len(rep.Sessions), func(i int) []any {
		s := &rep.Sessions[i]
		return []any{
			s.Session, s.Transport, dash(who(s.Principal, s.Client, s.ClientVersion)), dash(s.ProtocolVersion),
			dash(s.Remote), seconds(s.AgeSeconds), seconds(s.IdleSeconds), s.Requests, dash(s.Key),
		}
	})
	writeRateLimits(w, rep.RateLimits)
}

// writeRegistrations writes the items that were replaced or removed.
func (rep *Requests) writeRegistrations(w io.Writer) {
	writeSection(w, "ITEM\tNAME\tREPLACED\tEQUAL\tREMOVED\tADDED AGAIN\tUPDATED\tLAST\tBY", len(rep.Registrations), func(i int) []any {
		r := &rep.Registrations[i]
		return []any{r.Kind, dash(r.Name), r.Replaced, r.Equal, r.Removed, r.Added, r.Updated, r.Last.Format(time.RFC3339), dash(r.Place)}
	})
}

func (t *Totals) writeText(w io.Writer) {
	fmt.Fprintf(w, "\nsince the start: admitted %d, sent %d, stored %d, panics %d\n", t.Admitted, t.Sent, t.Stored, t.Panics)
	for _, group := range []struct {
		name   string
		counts map[string]uint64
	}{
		{"received", t.Received}, {"rejected", t.Rejected}, {"dropped", t.Dropped}, {"notifications sent", t.Notified},
		{"cancelled", t.Cancelled}, {"abandoned", t.Abandoned},
	} {
		fmt.Fprintf(w, "%s: %s\n", group.name, countsText(group.counts))
	}
}

// stateText is the state, and the middleware that the request is in.
func (r *Request) stateText() string {
	if strings.HasPrefix(r.In, "middleware ") {
		return r.State + " in " + r.In
	}
	return r.State
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
