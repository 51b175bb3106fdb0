package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Groups is the page /debug/requests or /debug/traces with requests that have the same texts in some
// fields counted together. All durations are in seconds.
type Groups struct {
	At time.Time `json:"at"`
	By []string  `json:"by"` // the fields
	// Requests counts the requests of all groups.
	Requests int `json:"requests"`
	// Groups are the largest groups, at most 100. LeftOut counts the others.
	Groups  []Group `json:"groups"`
	LeftOut int     `json:"left_out,omitzero"`
	// Full are those of the selected classes that have as many requests as there may be (recent_traces): older ones may be
	// gone, and are not counted here.
	Full []string `json:"full,omitempty"`
	// Outgoing are the HTTP requests of the handlers of all groups that have ended.
	Outgoing []Outgoing `json:"outgoing,omitempty"`
}

// Group is a number of requests with the same texts.
type Group struct {
	Values []string `json:"values"` // of the fields, in their order
	Count  int      `json:"count"`
	// OldestAgeSeconds is the time since the arrival of the oldest one.
	OldestAgeSeconds float64 `json:"oldest_age_seconds"`
	// Traces counts the traces that the requests belong to, and MostAttempts the requests of the
	// trace with the most: attempts of one call, if the client keeps the trace for a retry.
	Traces       int `json:"traces"`
	MostAttempts int `json:"most_attempts"`

	// Of requests that have ended.
	Outcomes   map[string]int `json:"outcomes,omitempty"`
	P50Seconds float64        `json:"p50_seconds,omitzero"`
	MaxSeconds float64        `json:"max_seconds,omitzero"`
	// Why is the explanation for the end of the latest one that has one.
	Why string `json:"why,omitempty"`
}

// WriteText writes the groups as text.
func (rep *Groups) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s  requests: %d", rep.At.Format(time.RFC3339), rep.Requests)
	if len(rep.Full) > 0 {
		fmt.Fprintf(w, "; full classes have only the newest (recent_traces): %s", strings.Join(rep.Full, ", "))
	}
	fmt.Fprint(w, "\n\n")
	ended := slices.ContainsFunc(rep.Groups, func(g Group) bool { return g.Outcomes != nil })
	heads := "COUNT\tOLDEST\tTRACES\tMOST ATTEMPTS"
	if ended {
		heads += "\tP50\tMAX\tOUTCOMES"
	}
	for _, field := range rep.By {
		heads += "\t" + strings.ToUpper(strings.ReplaceAll(field, "_", " "))
	}
	whyHead, addWhy := optionalColumn("WHY (LATEST)", rep.Groups, func(g *Group) string { return g.Why })
	WriteTable(w, heads+whyHead, len(rep.Groups), func(i int) []any {
		g := &rep.Groups[i]
		cells := []any{g.Count, seconds(g.OldestAgeSeconds), g.Traces, g.MostAttempts}
		if ended {
			cells = append(cells, fine(g.P50Seconds), fine(g.MaxSeconds), outcomesText(g.Outcomes))
		}
		for _, value := range g.Values {
			cells = append(cells, dash(value))
		}
		return addWhy(cells, g)
	})
	if rep.LeftOut > 0 {
		fmt.Fprintf(w, "and %d groups with less\n", rep.LeftOut)
	}
	writeOutgoing(w, rep.Outgoing)
}

// outcomesText lists how often each outcome is there.
func outcomesText(outcomes map[string]int) string {
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
		parts = append(parts, dash(outcome)+" "+strconv.Itoa(outcomes[outcome]))
	}
	return strings.Join(parts, ", ")
}
