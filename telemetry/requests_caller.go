package telemetry

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"slices"
	"text/tabwriter"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// maxCallers bounds the callers of a report.
const maxCallers = 20

// ReportCaller adds up what one caller has open. Callers are told apart by the principal
// (server.WithAuthenticator), by what the client says of itself, and by the address without
// the port. Only the principal is not the caller's own choice.
type ReportCaller struct {
	Principal        string  `json:"principal,omitempty"` // cut to 64 bytes
	Client           string  `json:"client,omitempty"`
	Remote           string  `json:"remote,omitempty"`
	Requests         int     `json:"requests"` // in flight, without the subscriptions
	Queued           int     `json:"queued"`   // of them
	Subscriptions    int     `json:"subscriptions"`
	Sessions         int     `json:"sessions"`
	OldestAgeSeconds float64 `json:"oldest_age_seconds"` // of the requests
}

// callers adds up by caller.
type callers map[callerKey]*ReportCaller

// A callerKey tells callers apart, by their whole principal.
type callerKey struct{ principal, client, remote string }

func (c callers) of(conn *session.Conn, client string) *ReportCaller {
	key := callerKey{client: client}
	if conn != nil {
		key.principal, key.remote = conn.Principal.String(), hostOf(conn.RemoteAddr)
	}
	row := c[key]
	if row == nil {
		row = &ReportCaller{Principal: session.Printable(key.principal, maxName), Client: client, Remote: key.remote}
		c[key] = row
	}
	return row
}

// hostOf takes the port off an address.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

func (c callers) addRequest(info *session.RequestInfo, client string) {
	row := c.of(info.Request.Conn, client)
	row.Requests++
	if info.State == "queued" {
		row.Queued++
	}
	row.OldestAgeSeconds = max(row.OldestAgeSeconds, info.Age.Seconds())
}

func (c callers) addSubscription(info *session.RequestInfo, client string) {
	c.of(info.Request.Conn, client).Subscriptions++
}

func (c callers) addSession(info *session.SessionInfo, client string) {
	c.of(info.Session.Conn(), client).Sessions++
}

// top returns the callers that have most open, the busiest first, and how many others
// there are.
func (c callers) top() (rows []ReportCaller, left int) {
	rows = make([]ReportCaller, 0, len(c))
	for _, row := range c {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b ReportCaller) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Sessions+b.Subscriptions, a.Sessions+a.Subscriptions),
			cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Remote, b.Remote))
	})
	if left = len(rows) - maxCallers; left > 0 {
		return rows[:maxCallers:maxCallers], left
	}
	return rows, 0
}

// writeCallers writes the callers for a person at a terminal.
func (rep *Report) writeCallers(w io.Writer) {
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
