package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A goal is a bound for a figure of the report. The report says whether it is reached. A missed
// goal does not fail the command, because on a shared machine the figures vary.
type goal struct {
	what   string
	least  bool // at least, not at most
	bound  float64
	unit   string
	figure func(report) (float64, bool)
}

const (
	goalCall   = "http/call/modern/small/16"
	goalLegacy = "http/call/legacy/small/16"
	goalTail   = "http/call/modern/small/64"
	goalStdio  = "stdio/call/modern/small/16"
	goalList   = "http/list/modern/500/16"
)

// goalRounds is the factor by which scenarios with goals have more rounds.
const goalRounds = 3

// goals returns the goals. Unless a goal says otherwise, it is for a call of 300 bytes over HTTP
// with 16 callers.
func goals() []goal { return slices.Concat(callGoals(), sessionGoals(), scaleGoals(), releaseGoals()) }

func callGoals() []goal {
	times := func(server, other, scenario string) func(report) (float64, bool) {
		return func(r report) (float64, bool) { return r.quotient(server, other, scenario) }
	}
	modern, legacy := func(r report) result { return r.promises }, func(r report) result { return r.promisesLegacy }
	return []goal{
		{what: "traces unsampled: CPU time, × all promises by hand", bound: 1, figure: promisedGoal(modern, "vitrine", servers.Promised)},
		{what: "default: CPU time, × traces unsampled", bound: 1.05, figure: promisedGoal(modern, servers.Default, "vitrine")},
		{what: "default, run by package service: CPU time, × all promises by hand", bound: 1, figure: promisedGoal(modern, servers.Service, servers.Promised)},
		{what: "CPU time of the Go SDK with its decoder mended, × Vitrine", least: true, bound: 3, figure: times("gosdk-mended", "vitrine", goalCall)},
		{what: "CPU time of the Go SDK, × Vitrine", least: true, bound: 15, figure: times("gosdk", "vitrine", goalCall)},
		{what: "legacy: CPU time, × all promises by hand", bound: 1, figure: promisedGoal(legacy, "vitrine", servers.Promised)},
		{what: "legacy: CPU time, × modern", bound: 1.1, figure: func(r report) (float64, bool) {
			legacy, modern := r.of("vitrine", goalLegacy), r.of("vitrine", goalCall)
			if legacy == nil || modern == nil {
				return 0, false
			}
			cpu := func(s sample) float64 { return float64(s.cpu) }
			return spreadOf(legacy, cpu).median / spreadOf(modern, cpu).median, true // not measured in turn
		}},
		{what: "allocations of the whole process", bound: 75, figure: func(r report) (float64, bool) {
			samples := r.of("vitrine", goalCall)
			if samples == nil {
				return 0, false
			}
			return spreadOf(samples, func(s sample) float64 { return s.mallocs }).median, true
		}},
		{what: "CPU time with 10 % sampled, × unsampled", bound: 1.1, figure: times("vitrine-sampled", "vitrine", goalCall)},
		{what: "CPU time with telemetry off, × unsampled", least: true, bound: 0.92, figure: times("vitrine-off", "vitrine", goalCall)},
		{what: "with an access token, a scope, two rules and the audit: CPU time, × without", bound: 1.25, figure: func(r report) (float64, bool) {
			i := slices.IndexFunc(servers.Protected(), func(k servers.Kind) bool { return k.Name == "vitrine-audit" })
			if r.protected.samples == nil {
				return 0, false
			}
			return ratios(r.protected.samples[i], r.protected.samples[0], cpuTimeOf).median, true
		}},
		{what: "everything on: CPU time, × net/http + encoding/json, same bytes", bound: 1.6, figure: beside(servers.EverythingOn, servers.Floor)},
		{what: "CPU time of mcp-go with validation, × Vitrine with everything on", least: true, bound: 2.5, figure: beside("mcpgo-validating", servers.EverythingOn)},
		{what: "stdio, 16 in flight: round trips a second, × net/http + encoding/json", least: true, bound: 0.5, figure: func(r report) (float64, bool) { return r.faster("vitrine", "floor", goalStdio) }},
		{what: "stdio, 16 in flight: round trips a second, × mcp-go", least: true, bound: 2, figure: func(r report) (float64, bool) { return r.faster("vitrine", "mcpgo", goalStdio) }},
		{what: "p99 at half of the load (64 callers), × net/http + encoding/json", bound: 2, figure: func(r report) (float64, bool) {
			samples, base := r.of("vitrine", goalTail), r.of("floor", goalTail)
			if samples == nil || base == nil || base[0].half.requests == 0 {
				return 0, false
			}
			return ratios(samples, base, p99AtHalf).median, true
		}},
		{what: "tools/list with 500 tools: CPU time, × bare echo of as many bytes", bound: 1.5, figure: times("vitrine", "bare", goalList)},
	}
}

func sessionGoals() []goal {
	return []goal{
		{what: "a session for each call, ended by DELETE, run by package service: CPU time, × all promises by hand", bound: 1.2, figure: shopGoal(extraSessions, servers.ShopComplete)},
		{what: "… × mcp-go", bound: 0.75, figure: shopGoal(extraSessions, servers.ShopMCPGo)},
		{what: "a session for each call, never ended, run by package service: CPU time, × all promises by hand", bound: 1.2, figure: shopGoal(extraSessionsForever, servers.ShopComplete)},
		{what: "… × mcp-go", bound: 0.75, figure: shopGoal(extraSessionsForever, servers.ShopMCPGo)},
	}
}

func scaleGoals() []goal {
	return []goal{
		{what: "an open stream, beyond net/http", bound: 12, unit: " KB", figure: func(r report) (float64, bool) {
			return r.scaled.excess("vitrine-scaled", r.scaled.openStreams())
		}},
		{what: "an idle legacy session", bound: 3, unit: " KB", figure: func(r report) (float64, bool) {
			return r.scaled.session.last().own() / 1000, r.scaled.session != nil
		}},
		{what: fmt.Sprintf("CPU time of a call beside all sessions and streams, × beside %d sessions", callersOfSessions), bound: 1.05, figure: func(r report) (float64, bool) {
			if r.scaled.cost == nil {
				return 0, false
			}
			return ratios(r.scaled.cost[len(r.scaled.cost)-1], r.scaled.cost[0], cpuTimeOf).median, true
		}},
		{what: "one change told to all streams: CPU time of a listener, × net/http", bound: 1.5, figure: func(r report) (float64, bool) {
			return r.scaled.told("vitrine-scaled")
		}},
		{what: "a call at 2 replicas behind nginx: CPU time of both, × one, ÷ the same for 2 that share nothing", bound: 1.05, figure: replicated(2)},
		{what: "a call at 3 replicas behind nginx: CPU time of all, × one, ÷ the same for 3 that share nothing", bound: 1.05, figure: replicated(3)},
		{what: "tools/list with 1000 tools: CPU time, × bare echo of as many bytes", bound: 1.5, figure: tooledGoal(list, "vitrine", ofBareTools)},
		{what: "… and a policy that filters it", bound: 3, figure: tooledGoal(list, servers.Filtered, ofBareTools)},
		{what: "tools/call with 1000 tools: CPU time, × with 10", bound: 1.05, figure: tooledGoal(call, "vitrine", ofFewTools)},
		{what: "… and a policy that filters lists", bound: 1.05, figure: tooledGoal(call, servers.Filtered, ofFewTools)},
		{what: "a text of 64 KiB in and out, run by package service: CPU time, × all promises by hand", bound: 1, figure: textGoal(64 << 10)},
		{what: "a text of 1 MiB in and out, run by package service: CPU time, × all promises by hand", bound: 1, figure: textGoal(1 << 20)},
		{what: "a text of 16 MiB in and out, run by package service: CPU time, × all promises by hand", bound: 1, figure: textGoal(16 << 20)},
	}
}

func releaseGoals() []goal {
	return []goal{
		{what: "from exec to the first answer", bound: 100, unit: " ms", figure: released(func(one programResult) float64 {
			return one.start(func(l launch) time.Duration { return l.took }).median
		})},
		{what: "the binary of a release", bound: 30, unit: " MB", figure: released(func(one programResult) float64 { return float64(one.size) / 1e6 })},
		{what: "resident when idle, at most, after an answer or a scrape, without the pages of its file", bound: 9, unit: " MB", figure: released(func(one programResult) float64 { return one.most(afterScrapes) / 1e6 })},
		{what: "… and when it was scraped again and again", bound: 9, unit: " MB", figure: released(func(one programResult) float64 { return one.most(moments) / 1e6 })},
	}
}

// reached reports whether the figure of a run meets the goal.
func (g goal) reached(figure float64) bool {
	return figure <= g.bound && !g.least || figure >= g.bound && g.least
}

// Goals returns the table of the goals.
func (r report) Goals() string {
	var b strings.Builder
	b.WriteString("| | aim | measured | |\n|---|---:|---:|---|\n")
	for _, g := range goals() {
		aim, measured, verdict := "≤ ", unknown, ""
		if g.least {
			aim = "≥ "
		}
		if figure, ok := g.figure(r); ok {
			measured, verdict = g.show(figure)+g.unit, "reached"
			if !g.reached(figure) {
				verdict = "**missed**"
			}
		}
		fmt.Fprintf(&b, "| %s | %s%g%s | %s | %s |\n", g.what, aim, g.bound, g.unit, measured, verdict)
	}
	return b.String()
}

// show prints a figure, with one digit more if it is close to the bound.
func (g goal) show(figure float64) string {
	if off := math.Abs(figure/g.bound - 1); off > 0 && off < 0.01 {
		return fmt.Sprintf("%.3f", figure)
	}
	return fmt.Sprintf("%.2f", figure)
}

// Missed returns the number of missed goals.
func (r report) Missed() (n int) {
	for _, g := range goals() {
		if figure, ok := g.figure(r); ok && !g.reached(figure) {
			n++
		}
	}
	return n
}

// quotient returns the median of the CPU time of one server as a multiple of that of another.
func (r report) quotient(server, other, scenario string) (float64, bool) {
	samples, base := r.of(server, scenario), r.of(other, scenario)
	if samples == nil || base == nil {
		return 0, false
	}
	return ratios(samples, base, cpuTimeOf).median, true
}

// faster returns the median of the rate of answers of one server as a multiple of that of
// another.
func (r report) faster(server, other, scenario string) (float64, bool) {
	samples, base := r.of(server, scenario), r.of(other, scenario)
	if samples == nil || base == nil {
		return 0, false
	}
	values := make([]float64, len(samples))
	for i := range samples {
		values[i] = samples[i].rate() / base[i].rate()
	}
	return spreadOfValues(values).median, true
}

// excess returns the kilobytes of heap and stacks that each of the largest number of streams,
// calls or sessions takes at a server, minus those at net/http.
func (s scaleResult) excess(server string, grown []growth) (float64, bool) {
	i := slices.IndexFunc(s.kinds, func(k servers.Kind) bool { return k.Name == server })
	if i < 0 || i >= len(grown) {
		return 0, false
	}
	return (grown[i].last().own() - grown[0].last().own()) / 1000, true
}
