package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// toolCounts returns how many tools the servers have: few, and many.
func (s scale) toolCounts() [2]int { return [2]int{fewTools, s.tools} }

// A toolsResult has the samples of one request: for each kind of [servers.Listing] those with few tools
// and those with many.
type toolsResult struct {
	request kind
	samples [][2][]sample
}

// manyTools measures requests to servers with few and with many tools. Each request has an access
// token, by which one server decides which tools its list has.
func (p plan) manyTools(programs programs, sink string) (all []toolsResult, err error) {
	for _, request := range []kind{list, call} {
		got, err := p.manyToolsOf(request, programs, sink)
		if err != nil {
			return nil, fmt.Errorf("tools/%s: %w", request, err)
		}
		all = append(all, got)
	}
	return all, nil
}

func (p plan) manyToolsOf(request kind, programs programs, sink string) (r toolsResult, err error) {
	r.request = request
	var all contest
	defer func() { err = errors.Join(err, all.stop()) }()
	counts := p.scale.toolCounts()
	for _, k := range servers.Listing() {
		for _, n := range counts {
			s := scenario{kind: request, tools: n, callers: 16, token: true}
			if request == call {
				s.size = small
			}
			if err := all.enter(programs.of(k), k, s, sink, p.slice); err != nil {
				return r, err
			}
			all[len(all)-1].name += fmt.Sprintf("-%d", n)
		}
	}
	samples, err := all.measure(goalRounds*p.rounds, p.slice)
	if err != nil {
		return r, err
	}
	for i := 0; i < len(samples); i += len(counts) {
		r.samples = append(r.samples, [2][]sample{samples[i], samples[i+1]})
	}
	return r, p.profile(p.scale.toolsName()+"/"+string(request), all)
}

// tooled writes the table of the requests to servers with few and with many tools.
func (s scaleResult) tooled(b *strings.Builder) {
	row := head(b, "server", "request", "tools", "CPU µs", "× 10 tools", "× bare", "allocations", "KB allocated", "answer")
	for _, r := range s.tools {
		for i, k := range servers.Listing() {
			for j, n := range s.scale.toolCounts() {
				samples := r.samples[i][j]
				cells := costs(samples, r.samples[i][0])
				timesBare := format("%.2f", ratios(samples, r.samples[0][j], cpuTimeOf))
				row(k.Title, "tools/"+string(r.request), fmt.Sprint(n), cells[0], cells[1], timesBare, cells[2], cells[3], fmt.Sprint(samples[0].answer))
			}
		}
	}
}

// tooledGoal returns the CPU time of a request to a server with many tools, as a multiple of that with
// few of them, or of the bare echo with many.
func tooledGoal(request kind, server string, base func(toolsResult, int) []sample) func(report) (float64, bool) {
	return func(r report) (float64, bool) {
		for _, got := range r.scaled.tools {
			for i, k := range servers.Listing() {
				if got.request == request && k.Name == server {
					return ratios(got.samples[i][1], base(got, i), cpuTimeOf).median, true
				}
			}
		}
		return 0, false
	}
}

func ofFewTools(r toolsResult, kind int) []sample { return r.samples[kind][0] }
func ofBareTools(r toolsResult, _ int) []sample   { return r.samples[0][1] }
