package main

import (
	"fmt"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// parts are the shares of CPU time and allocations by the part of the program.
type parts struct{ cpu, allocs, bytes map[string]float64 }

// The parts that are not packages.
const (
	partKernel  = "system calls"
	partGarbage = "garbage collection"
	partRuntime = "scheduling"
	partOther   = "the rest"
)

// partsOfCode are the parts that are packages. A part includes the packages that it calls and
// that are not listed here: telemetry includes the libraries that it uses.
var partsOfCode = []struct {
	title    string
	packages []string
}{
	{"net/http", []string{"net/http", "net/textproto", "net/url", "net", "bufio", "mime"}},
	{"transport", []string{"github.com/vitrine-mcp/vitrine/transport", "github.com/vitrine-mcp/vitrine/internal/streamable"}},
	{"internal/session", []string{"github.com/vitrine-mcp/vitrine/internal/session", "github.com/vitrine-mcp/vitrine/internal/stream", "github.com/vitrine-mcp/vitrine/internal/resume"}},
	{"internal/wire", []string{"github.com/vitrine-mcp/vitrine/internal/wire"}},
	{"server, middleware", []string{"github.com/vitrine-mcp/vitrine/server", "github.com/vitrine-mcp/vitrine/server/internal/schema", "github.com/vitrine-mcp/vitrine/middleware"}},
	{"telemetry", []string{"github.com/vitrine-mcp/vitrine/telemetry"}},
	{"the handler", []string{"github.com/vitrine-mcp/vitrine/bench/servers"}},
}

// partTitles returns all parts, in the order of the table.
func partTitles() (titles []string) {
	titles = append(titles, partKernel)
	for _, p := range partsOfCode {
		titles = append(titles, p.title)
	}
	return append(titles, partGarbage, partRuntime, partOther)
}

// divide returns the shares of the parts in a profile.
func (prof profile) divide() (p parts, err error) {
	if p.cpu, err = shares(prof.cpu, "cpu", true); err != nil {
		return p, err
	}
	if p.allocs, err = shares(prof.allocs, "alloc_objects", false); err != nil {
		return p, err
	}
	p.bytes, err = shares(prof.allocs, "alloc_space", false)
	return p, err
}

// shares returns the shares of one value of a profile. running is true for stacks of running
// code: then the work of the runtime itself is also a part.
func shares(data []byte, value string, running bool) (map[string]float64, error) {
	prof, err := pprof.ParseData(data)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(prof.SampleType, func(t *pprof.ValueType) bool { return t.Type == value })
	if i < 0 {
		return nil, fmt.Errorf("the profile has no %s", value)
	}
	shares, sum := map[string]float64{}, 0.0
	for _, s := range prof.Sample {
		v := float64(s.Value[i])
		shares[partOf(s, running)] += v
		sum += v
	}
	if sum == 0 {
		return nil, fmt.Errorf("the profile has no sample of %s", value)
	}
	for part := range shares {
		shares[part] /= sum
	}
	return shares, nil
}

// partOf returns the part of a sample: that of its innermost listed package.
func partOf(s *pprof.Sample, running bool) string {
	part, inRuntime := "", true
	for _, loc := range s.Location { // innermost first
		for _, line := range loc.Line {
			name := line.Function.Name
			if running && part == "" && strings.Contains(name, "syscall.") {
				return partKernel
			}
			if running && (strings.HasPrefix(name, "runtime.gc") || name == "runtime.bgsweep" || name == "runtime.bgscavenge") {
				return partGarbage
			}
			inRuntime = inRuntime && strings.HasPrefix(name, "runtime.")
			if part == "" {
				part = partOfPackage(packageOf(name))
			}
		}
	}
	switch {
	case part != "":
		return part
	case running && inRuntime:
		return partRuntime
	}
	return partOther
}

func partOfPackage(path string) string {
	for _, p := range partsOfCode {
		if slices.Contains(p.packages, path) {
			return p.title
		}
	}
	return ""
}

// packageOf returns the path of the package of a function, as profiles name it.
func packageOf(function string) string {
	function, _, _ = strings.Cut(function, "[") // type arguments may hold anything
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	return function[:slash] + name
}

// divided are the kinds whose profiles are divided into parts.
var divided = []string{servers.Floor, "vitrine", "vitrine-sampled"}

// Parts returns the table of the CPU time and the memory of one request of the headline by part;
// empty if there are no profiles of it.
func (r report) Parts() string {
	var b strings.Builder
	for _, res := range r.results {
		if res.parts == nil {
			continue
		}
		columns := []string{"part"}
		for i, k := range r.plan.kinds {
			if res.parts[i].cpu != nil {
				columns = append(columns, k.Title+": CPU µs", "allocations", "KB")
			}
		}
		row := head(&b, columns...)
		for _, title := range partTitles() {
			cells, some := []string{title}, 0.0
			for i := range r.plan.kinds {
				if p := res.parts[i]; p.cpu != nil {
					cpu := p.cpu[title] * spreadOf(res.samples[i], func(s sample) float64 { return micros(s.cpu) }).median
					allocs := p.allocs[title] * spreadOf(res.samples[i], func(s sample) float64 { return s.mallocs }).median
					kilobytes := p.bytes[title] * spreadOf(res.samples[i], func(s sample) float64 { return s.bytes }).median / 1000
					cells = append(cells, fmt.Sprintf("%.1f", cpu), fmt.Sprintf("%.1f", allocs), fmt.Sprintf("%.1f", kilobytes))
					some += cpu + allocs + kilobytes
				}
			}
			if some > 0 {
				row(cells...)
			}
		}
	}
	return b.String()
}
