package service

import (
	"bytes"
	"cmp"
	"net/http"
	"runtime"
	"runtime/pprof"
	"sort"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

const (
	maxGoroutineGroups = 100
	maxGoroutineText   = 8 << 20 // bytes of stacks that are looked at for what goroutines wait for
)

// goroutines serves the goroutines grouped by method, tool and stack, the largest group first. ?tool= selects
// those of one tool.
func goroutines(w http.ResponseWriter, r *http.Request) {
	report.Write(w, r, goroutinePage(r.URL.Query().Get("tool")))
}

// goroutinePage makes the page; of one tool, unless that is "". The labels and counts are those of the profile,
// and what goroutines wait for is in the stacks that the runtime prints. The two are taken one after the other, and
// a wait belongs to all groups with its stack.
func goroutinePage(tool string) *report.Goroutines {
	page := &report.Goroutines{At: time.Now(), Groups: []report.GoroutineGroup{}}
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1) // a buffer has no errors
	text := make([]byte, 64<<10)
	n := runtime.Stack(text, true)
	for n == len(text) && n < maxGoroutineText {
		text = make([]byte, 4*len(text))
		n = runtime.Stack(text, true)
	}
	page.Incomplete = n == len(text)
	waits := parseWaits(string(text[:n]))
	for _, g := range parseGroups(profile.String()) {
		page.Total += g.count
		if tool != "" && g.tool != tool {
			continue
		}
		page.Groups = append(page.Groups, g.row(waits[g.key()]))
	}
	sort.SliceStable(page.Groups, func(i, j int) bool {
		a, b := &page.Groups[i], &page.Groups[j]
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.LongestWaitSeconds, a.LongestWaitSeconds)) < 0
	})
	if len(page.Groups) > maxGoroutineGroups {
		for _, row := range page.Groups[maxGoroutineGroups:] {
			page.OtherGroups++
			page.OtherGoroutines += row.Count
		}
		page.Groups = page.Groups[:maxGoroutineGroups]
	}
	return page
}
