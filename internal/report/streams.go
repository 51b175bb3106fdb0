package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/order"
)

// EndedStream is one event stream over HTTP that has ended.
type EndedStream struct {
	At            time.Time `json:"at"`
	Kind          string    `json:"kind"`   // answer, subscription, session, resumed
	Reason        string    `json:"reason"` // why it has ended
	AgeSeconds    float64   `json:"age_seconds"`
	Tool          string    `json:"tool,omitempty"`       // of the request that the stream answered
	RequestID     string    `json:"request_id,omitempty"` // of that request
	TraceID       string    `json:"trace_id,omitempty"`   // of that request
	Client        string    `json:"client,omitempty"`
	ClientVersion string    `json:"client_version,omitempty"`
	Principal     string    `json:"principal,omitempty"`
	Session       string    `json:"session,omitempty"`
	Remote        string    `json:"remote,omitempty"`
	Via           string    `json:"via,omitempty"`
	ForwardedFor  string    `json:"forwarded_for,omitempty"`
}

// A Disconnect is an HTTP exchange whose peer has left before its end.
type Disconnect struct {
	At                         time.Time
	Age                        time.Duration
	Via, Client, ClientVersion string
}

// Disconnects says at which age the peers of HTTP exchanges have left in the last minutes.
type Disconnects struct {
	WindowSeconds float64 `json:"window_seconds"`
	Count         int     `json:"count"`
	Incomplete    bool    `json:"incomplete,omitzero"` // there were more than are kept
	// Same is how many were at nearly the same age, if most were, and From and To their least and
	// greatest age in seconds. It is 0 if there is no such age.
	Same int     `json:"same,omitzero"`
	From float64 `json:"from_seconds,omitzero"`
	To   float64 `json:"to_seconds,omitzero"`
	Text string  `json:"text,omitempty"` // says so in a sentence
	// Clients are the clients with the most disconnects, at most 10. ClientsLeftOut counts the others.
	Clients        []DisconnectedClient `json:"clients,omitempty"`
	ClientsLeftOut int                  `json:"clients_left_out,omitzero"`
}

// A DisconnectedClient is one version of a client whose exchanges have ended too early.
type DisconnectedClient struct {
	Client        string `json:"client,omitempty"`
	ClientVersion string `json:"client_version,omitempty"`
	Count         int    `json:"count"`
	Same          int    `json:"same,omitzero"` // of [Disconnects.Same]
}

// What it takes to find a common age: so many disconnects, more than this share of them within the width
// or a fiftieth of the age, and not an age at which people give up by hand.
const (
	minSameAge    = 5
	minSameShare  = 0.6
	sameAgeWidth  = 500 * time.Millisecond
	leastSameAge  = 3 * time.Second
	maxNamedVia   = 3
	maxNamedPeers = 3
)

// maxDisconnected bounds [Disconnects.Clients].
const maxDisconnected = 10

// DisconnectsOf looks for an age at which most peers have left.
func DisconnectsOf(all []Disconnect, window time.Duration, incomplete bool) Disconnects {
	d := Disconnects{WindowSeconds: window.Seconds(), Count: len(all), Incomplete: incomplete}
	order.By(all, func(a, b *Disconnect) bool { return a.Age < b.Age })
	begin, end := 0, 0
	for from, to := 0, 0; from < len(all); from++ {
		width := max(sameAgeWidth, all[from].Age/50)
		for to < len(all) && all[to].Age-all[from].Age <= width {
			to++
		}
		if to-from > end-begin {
			begin, end = from, to
		}
	}
	same := all[begin:end]
	if len(same) < minSameAge || float64(len(same)) < minSameShare*float64(len(all)) || same[0].Age < leastSameAge {
		same = nil
	}
	d.addClients(all, same)
	if same == nil {
		return d
	}
	d.Same, d.From, d.To = len(same), same[0].Age.Seconds(), same[len(same)-1].Age.Seconds()
	via, clients, names := map[string]int{}, map[string]int{}, map[string]bool{}
	for i := range same {
		via[cmp.Or(same[i].Via, "unknown")]++
		clients[cmp.Or(strings.TrimSpace(same[i].Client+" "+same[i].ClientVersion), "unknown")]++
		names[same[i].Client] = true
	}
	what := "something between client and server cuts there"
	if len(names) == 1 {
		what += ", or the only client does"
	}
	d.Text = fmt.Sprintf("%d of %d disconnects in the last %.0f minutes were at an age of %.1f to %.1f s: %s (via: %s; clients: %s)",
		d.Same, d.Count, window.Minutes(), d.From, d.To, what, most(via, maxNamedVia), most(clients, maxNamedPeers))
	return d
}

// addClients adds the versions of clients with the most disconnects. same are those of all at nearly the same
// age.
func (d *Disconnects) addClients(all, same []Disconnect) {
	type key struct{ client, version string }
	counts := map[key]*DisconnectedClient{}
	for i := range all {
		k := key{all[i].Client, all[i].ClientVersion}
		if counts[k] == nil {
			counts[k] = &DisconnectedClient{Client: k.client, ClientVersion: k.version}
		}
		counts[k].Count++
	}
	for i := range same {
		counts[key{same[i].Client, same[i].ClientVersion}].Same++
	}
	for _, c := range counts {
		d.Clients = append(d.Clients, *c)
	}
	order.By(d.Clients, func(a, b *DisconnectedClient) bool {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Client, b.Client), cmp.Compare(a.ClientVersion, b.ClientVersion)) < 0
	})
	if d.ClientsLeftOut = max(len(d.Clients)-maxDisconnected, 0); d.ClientsLeftOut > 0 {
		d.Clients = d.Clients[:maxDisconnected:maxDisconnected]
	}
}

// most names the most frequent texts.
func most(counts map[string]int, limit int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for i, name := range names[:min(len(names), limit)] {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	if len(names) > limit {
		return fmt.Sprintf("%s, and %d others", strings.Join(names[:limit], ", "), len(names)-limit)
	}
	return strings.Join(names, ", ")
}

// maxStreamsShown bounds the streams of the text form and of a frame.
const maxStreamsShown = 20

// InTurns returns the latest stream of each caller, then the one before it of each, until there are enough for
// the text form or a frame. They have the order of the page.
func InTurns(all []EndedStream) List[EndedStream] {
	type caller struct{ client, version, principal string }
	seen := map[caller]int{}
	rank := make([]int, len(all)) // how many of the caller are later
	order := make([]int, len(all))
	for i := range all {
		c := caller{all[i].Client, all[i].ClientVersion, all[i].Principal}
		rank[i], order[i] = seen[c], i
		seen[c]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank[a], rank[b]) })
	order = order[:min(len(order), maxStreamsShown)]
	slices.Sort(order)
	list := List[EndedStream]{Rows: make([]EndedStream, len(order)), LeftOut: len(all) - len(order)}
	for i, at := range order {
		list.Rows[i] = all[at]
	}
	return list
}

// writeStreams writes the streams that ended last, and the ages of disconnects.
func (rep *Requests) writeStreams(w io.Writer) {
	streams := InTurns(rep.EndedStreams).Rows
	writeSection(w, "STREAM\tENDED\tAT\tLIVED\tTOOL\tID\tTRACE\tCLIENT\tVERSION\tPRINCIPAL\tSESSION\tFROM\tVIA", len(streams), func(i int) []any {
		s := &streams[i]
		return []any{
			s.Kind, s.Reason, s.At.Format("15:04:05.000"), seconds(s.AgeSeconds), dash(s.Tool), dash(s.RequestID), dash(s.TraceID),
			dash(s.Client), dash(s.ClientVersion), dash(s.Principal), dash(s.Session), dash(s.Remote), dash(s.Via),
		}
	})
	writeSection(w, "DISCONNECTS\tSAME AGE\tCLIENT\tVERSION", len(rep.Disconnects.Clients), func(i int) []any {
		c := &rep.Disconnects.Clients[i]
		return []any{c.Count, c.Same, dash(c.Client), dash(c.ClientVersion)}
	})
	if rep.Disconnects.Text != "" {
		fmt.Fprintf(w, "\n%s\n", rep.Disconnects.Text)
	}
}
