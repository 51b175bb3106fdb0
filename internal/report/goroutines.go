package report

import (
	"fmt"
	"io"
	"time"
)

// Goroutines is the page of the goroutines of a process, grouped by tool and stack.
type Goroutines struct {
	At    time.Time `json:"at"`
	Total int       `json:"total"`
	// Groups has the largest groups, at most 100. OtherGoroutines are in OtherGroups smaller ones.
	Groups          []GoroutineGroup `json:"groups"`
	OtherGroups     int              `json:"other_groups,omitzero"`
	OtherGoroutines int              `json:"other_goroutines,omitzero"`
	// Incomplete tells that there were too many goroutines to find out for all what they wait for.
	Incomplete bool `json:"incomplete,omitzero"`
}

// GoroutineGroup are goroutines with the same method, tool and stack.
type GoroutineGroup struct {
	Count  int    `json:"count"`
	Method string `json:"method,omitempty"` // of the handler that runs in them or has started them
	Tool   string `json:"tool,omitempty"`
	// State is what most goroutines with this stack do, as the runtime calls it: chan receive, sync.Mutex.Lock.
	State string `json:"state,omitempty"`
	// LongestWaitSeconds is how long one with this stack has waited at most, in full minutes. It is 0 below one.
	LongestWaitSeconds float64 `json:"longest_wait_seconds,omitzero"`
	// Blocking is the innermost function without the standard library's internals, Application the innermost one that is neither the standard library's
	// nor Vitrine's, with file and line.
	Blocking    string   `json:"blocking"`
	Application string   `json:"application,omitempty"`
	Stack       []string `json:"stack"` // the innermost first, at most 32
}

// WriteText writes the page as text.
func (g *Goroutines) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s  %d goroutines\n", g.At.Format(time.RFC3339), g.Total)
	if g.Incomplete {
		fmt.Fprintln(w, "there are too many to say for all of them what they wait for")
	}
	writeSection(w, "COUNT\tTOOL\tSTATE\tWAITED\tBLOCKING\tAPPLICATION", len(g.Groups), func(i int) []any {
		row := &g.Groups[i]
		name := row.Tool
		if name == "" {
			name = row.Method
		}
		return []any{row.Count, dash(name), dash(row.State), seconds(row.LongestWaitSeconds), row.Blocking, dash(row.Application)}
	})
	if g.OtherGroups > 0 {
		fmt.Fprintf(w, "and %d goroutines in %d smaller groups\n", g.OtherGoroutines, g.OtherGroups)
	}
}
