package report

import (
	"fmt"
	"io"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/order"
)

// Events is the page of the events that servers keep to resume streams of legacy HTTP clients.
type Events struct {
	At time.Time `json:"at"`
	EventsHeld
	Sessions int `json:"sessions"` // that have events or answers
	// MaxBytes bounds the bytes. It is 0 if no server keeps events in memory, as with a store of the program:
	// then only answers are known.
	MaxBytes int `json:"max_bytes"`
	// Fetched counts the stored answers that clients have fetched since the start, and Expired those that no
	// client can fetch any more, by the reason. Failures counts failed operations of the store.
	Fetched  uint64            `json:"fetched"`
	Expired  map[string]uint64 `json:"expired"`
	Failures map[string]uint64 `json:"failures"`
	// BySession and ByClient are the largest holders, at most 20. The others are added up.
	BySession     []EventHolder `json:"by_session"`
	OtherSessions EventHolder   `json:"other_sessions"`
	ByClient      []EventHolder `json:"by_client"`
	OtherClients  EventHolder   `json:"other_clients"`
	// Lost are the latest answers that no client can fetch any more, newest first. If there are many,
	// those of the session with most of them are left out first.
	Lost []LostAnswer `json:"lost"`
}

// LostAnswer is a stored answer that no client can fetch any more.
type LostAnswer struct {
	At            time.Time `json:"at"`
	StoredSeconds float64   `json:"stored_seconds"` // from when it was stored until At
	Reason        string    `json:"reason"`
	Method        string    `json:"method"`
	Target        string    `json:"target,omitempty"`
	ID            string    `json:"id"` // of the request
	Session       string    `json:"session"`
	Client        string    `json:"client,omitempty"`
	ClientVersion string    `json:"client_version,omitempty"`
	Principal     string    `json:"principal,omitempty"`
	TraceID       string    `json:"trace_id,omitempty"`
}

// EventsHeld adds up events. Answers are those that were stored and neither sent nor fetched.
type EventsHeld struct {
	Bytes            int     `json:"bytes"`
	Events           int     `json:"events"`
	Streams          int     `json:"streams,omitzero"`
	Answers          int     `json:"answers"`
	OldestAgeSeconds float64 `json:"oldest_age_seconds"` // of the oldest event
}

// Add adds other events.
func (h *EventsHeld) Add(o EventsHeld) {
	h.Bytes, h.Events, h.Streams, h.Answers = h.Bytes+o.Bytes, h.Events+o.Events, h.Streams+o.Streams, h.Answers+o.Answers
	h.OldestAgeSeconds = max(h.OldestAgeSeconds, o.OldestAgeSeconds)
}

// EventHolder is a session, or a client with its sessions.
type EventHolder struct {
	EventsHeld
	Sessions      int     `json:"sessions"`
	Share         float64 `json:"share"`         // of the bytes of all
	Key           string  `json:"key,omitempty"` // of a session, for /debug/actions/
	Session       string  `json:"session,omitempty"`
	Client        string  `json:"client,omitempty"`
	ClientVersion string  `json:"client_version,omitempty"`
	Principal     string  `json:"principal,omitempty"`
	Remote        string  `json:"remote,omitempty"` // of a session
}

// maxEventHolders bounds each list of holders.
const maxEventHolders = 20

// LargestHolders sorts holders of a total of bytes, the largest first, and adds up those that have no place in the list.
func LargestHolders(rows []EventHolder, total int) (largest []EventHolder, others EventHolder) {
	share := func(h *EventHolder) {
		if total > 0 {
			h.Share = float64(h.Bytes) / float64(total)
		}
	}
	order.By(rows, func(a, b *EventHolder) bool {
		if a.Bytes != b.Bytes {
			return a.Bytes > b.Bytes
		}
		return a.Answers > b.Answers
	})
	n := min(len(rows), maxEventHolders)
	for i := range rows {
		if i < n {
			share(&rows[i])
			continue
		}
		others.Add(rows[i].EventsHeld)
		others.Sessions += rows[i].Sessions
	}
	share(&others)
	return rows[:n:n], others
}

// WriteText writes the page as text.
func (e *Events) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s  ", e.At.Format(time.RFC3339))
	if e.MaxBytes > 0 {
		fmt.Fprintf(w, "%d of %d bytes in %d events of %d streams and %d sessions, the oldest %s old\n",
			e.Bytes, e.MaxBytes, e.Events, e.Streams, e.Sessions, seconds(e.OldestAgeSeconds))
	} else {
		fmt.Fprintln(w, "no events are kept in memory")
	}
	fmt.Fprintf(w, "answers that clients may fetch: %d\nsince the start: fetched %d, expired: %s, failures: %s\n",
		e.Answers, e.Fetched, countsText(e.Expired), countsText(e.Failures))
	writeHolders(w, "CLIENT", e.ByClient, e.OtherClients, func(h *EventHolder) string { return dash(who(h.Principal, h.Client, h.ClientVersion)) })
	writeHolders(w, "SESSION\tKEY\tCLIENT\tFROM", e.BySession, e.OtherSessions, func(h *EventHolder) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s", dash(h.Session), dash(h.Key), dash(who(h.Principal, h.Client, h.ClientVersion)), dash(h.Remote))
	})
	writeSection(w, "LOST ANSWER\tSTORED FOR\tREASON\tMETHOD\tTARGET\tID\tSESSION\tCLIENT\tTRACE", len(e.Lost), func(i int) []any {
		a := &e.Lost[i]
		return []any{
			a.At.Format(time.RFC3339), seconds(a.StoredSeconds), a.Reason, a.Method, dash(a.Target), a.ID, a.Session,
			dash(who(a.Principal, a.Client, a.ClientVersion)), dash(a.TraceID),
		}
	})
}

func writeHolders(w io.Writer, heads string, rows []EventHolder, others EventHolder, name func(h *EventHolder) string) {
	writeSection(w, "BYTES\tSHARE\tEVENTS\tSTREAMS\tANSWERS\tOLDEST\tSESSIONS\t"+heads, len(rows), func(i int) []any {
		h := &rows[i]
		return []any{h.Bytes, fmt.Sprintf("%.1f %%", 100*h.Share), h.Events, h.Streams, h.Answers, seconds(h.OldestAgeSeconds), h.Sessions, name(h)}
	})
	if others.Sessions > 0 {
		fmt.Fprintf(w, "and %d other sessions with %d bytes in %d events, %d answers\n", others.Sessions, others.Bytes, others.Events, others.Answers)
	}
}
