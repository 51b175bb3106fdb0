package report

import (
	"fmt"
	"io"
	"time"
)

// Replicas is the page /debug/replicas: what each replica says of itself. All durations are in seconds.
type Replicas struct {
	At time.Time `json:"at"`
	// Replicas begins with the one that has made the page. It is empty for a server without a store.
	Replicas []Replica `json:"replicas"`
	// Note says what the list cannot have, or is "".
	Note string `json:"note,omitempty"`
}

// Replica is one of the replicas.
type Replica struct {
	Replica          string    `json:"replica"` // its random name among them
	This             bool      `json:"this,omitzero"`
	Host             string    `json:"host"`
	Process          int       `json:"process"` // id
	Version          string    `json:"version"` // of the program
	Started          time.Time `json:"started"`
	Draining         bool      `json:"draining,omitzero"`
	InFlight         int       `json:"in_flight"` // requests, with subscriptions
	Sessions         int       `json:"sessions"`  // that it has objects of: of a session there may be several
	Tasks            int       `json:"tasks"`     // whose handlers run there
	StoreAwaySeconds float64   `json:"store_away_seconds,omitzero"`
}

// WriteText writes the list as text.
func (p *Replicas) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s\n", p.At.Format(time.RFC3339))
	writeSection(w, "REPLICA\tHOST\tPROCESS\tVERSION\tSTARTED\tSTATE\tIN FLIGHT\tSESSIONS\tTASKS", len(p.Replicas), func(i int) []any {
		r := &p.Replicas[i]
		return []any{r.Replica, dash(r.Host), r.Process, dash(r.Version), r.Started.Format(time.RFC3339), r.state(), r.InFlight, r.Sessions, r.Tasks}
	})
	if p.Note != "" {
		fmt.Fprintf(w, "\n%s\n", p.Note)
	}
}

// state says in words how the replica is.
func (r *Replica) state() string {
	text := "serves"
	if r.Draining {
		text = "drains"
	}
	if r.StoreAwaySeconds > 0 {
		text += ", store away for " + seconds(r.StoreAwaySeconds)
	}
	if r.This {
		text += " (this one)"
	}
	return text
}
