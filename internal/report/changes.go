package report

import (
	"fmt"
	"io"
	"time"
)

// Changes is the page /debug/changes: what has changed in what requests did.
type Changes struct {
	At time.Time `json:"at"`
	// Windows are those of the query, or nil: then the server looks for changes in the last hours.
	Windows *Windows `json:"windows,omitempty"`
	// Threshold is the least score of a change.
	Threshold float64       `json:"threshold"`
	Changes   []Change      `json:"changes"` // the most important first
	History   ChangeHistory `json:"history"`
}

// Windows are two windows that are compared. The ends are not included.
type Windows struct {
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	BeforeFrom time.Time `json:"before_from"`
	BeforeTo   time.Time `json:"before_to"`
}

// ChangeHistory says what the server knows of the past.
type ChangeHistory struct {
	Oldest   time.Time `json:"oldest,omitzero"`
	Keys     int       `json:"keys"` // combinations of client, version, principal, method, target and outcome
	Bytes    int       `json:"bytes"`
	MaxBytes int       `json:"max_bytes"` // max_change_bytes
	// Searched is the beginning of the time that was searched.
	Searched time.Time `json:"searched,omitzero"`
	// Merged counts the requests since the start whose client, version and principal are not kept apart.
	Merged uint64 `json:"merged"`
}

// Change is one change.
type Change struct {
	// Text says it in one line.
	Text    string  `json:"text"`
	Measure string  `json:"measure"`
	Score   float64 `json:"score"` // about how many standard deviations it has
	Windows
	Lasts bool `json:"lasts"` // it is not over
	// Before and After are of the calls with these clients, principals and tools: a share of the calls, calls
	// or expired answers per second, bytes per call, or seconds per call.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// ShareOfChange is the part of the whole change that these calls have, ShareOfCalls their part of all calls.
	ShareOfChange float64      `json:"share_of_change"`
	ShareOfCalls  float64      `json:"share_of_calls"`
	Parts         []ChangePart `json:"parts"`
	Reason        string       `json:"reason,omitempty"` // the cause or the reason of most of them
	Phase         string       `json:"phase,omitempty"`
	FirstSeen     time.Time    `json:"first_seen,omitzero"` // of a value of the parts that is new
	// Count is how many of these calls ended like this after the change, if the measure is a share.
	Count int `json:"count,omitzero"`
	// Example is what went wrong in the newest of them that is kept: an error, a panic, or what is wrong with
	// the arguments.
	Example string `json:"example,omitempty"`
	// Requests is the path and the query of the requests behind it, on the admin listener. Traces are the ids of
	// the newest of them.
	Requests string   `json:"requests"`
	Traces   []string `json:"traces"`
	// PromQL is a query for Prometheus that shows the change.
	PromQL string `json:"promql"`
	// PromQLCovers says whose calls the query counts, if they are more than those of the change.
	PromQLCovers string `json:"promql_covers,omitempty"`
}

// ChangePart is a set of values of client, version, principal or tool.
type ChangePart struct {
	Dimension string   `json:"dimension"`
	Values    []string `json:"values"`
}

// WriteText writes the page as text.
func (rep *Changes) WriteText(w io.Writer) {
	const clock = "15:04:05"
	if v := rep.Windows; v != nil {
		fmt.Fprintf(w, "%s  %s to %s, compared with %s to %s\n", rep.At.Format(time.RFC3339),
			v.From.Format(clock), v.To.Format(clock), v.BeforeFrom.Format(clock), v.BeforeTo.Format(clock))
	} else {
		fmt.Fprintf(w, "%s  what has changed\n", rep.At.Format(time.RFC3339))
	}
	if len(rep.Changes) == 0 {
		fmt.Fprintln(w, "\nNothing has changed.")
	}
	for i := range rep.Changes {
		c := &rep.Changes[i]
		fmt.Fprintf(w, "\n%s\n", c.Text)
		if c.Example != "" {
			fmt.Fprintf(w, "  for example: %s\n", c.Example)
		}
		if rep.Windows == nil { // else the head says it
			fmt.Fprintf(w, "  compared with %s to %s\n", c.BeforeFrom.Format(clock), c.BeforeTo.Format(clock))
		}
		fmt.Fprintf(w, "  requests: %s\n", c.Requests)
		for _, trace := range c.Traces {
			fmt.Fprintf(w, "  trace: /debug/traces/%s\n", trace)
		}
		of := ""
		if c.PromQLCovers != "" {
			of = " of " + c.PromQLCovers
		}
		fmt.Fprintf(w, "  promql%s: %s\n", of, c.PromQL)
	}
	h := rep.History
	oldest := "-"
	if !h.Oldest.IsZero() {
		oldest = h.Oldest.Format(time.RFC3339)
	}
	fmt.Fprintf(w, "\nhistory: since %s, %d combinations of caller, tool and outcome in %d of %d bytes (max_change_bytes)\n",
		oldest, h.Keys, h.Bytes, h.MaxBytes)
	if h.Merged > 0 {
		fmt.Fprintf(w, "%d requests count without their callers, because there are too many callers\n", h.Merged)
	}
}
