package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testReport() report {
	at := func(cpu, mallocs float64) []sample {
		s := sample{requests: 1000, took: time.Second, mallocs: mallocs, bytes: 4100, answer: 200,
			p50: 400 * time.Microsecond, p99: 1500 * time.Microsecond, cpu: time.Duration(cpu * 1000)}
		slow := s
		slow.cpu *= 2
		return []sample{s, slow, s}
	}
	return report{
		plan: plan{kinds: compared(regexp.MustCompile(`^(bare|vitrine)$`)), rounds: 3, slice: time.Second},
		machine: machine{cpu: "some processor", cores: 2, system: "linux/amd64", golang: "go1.26", load: "0.01 0.02 0.03",
			when: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), modules: map[string]string{"github.com/vitrine-mcp/vitrine": "v9"}},
		outcome: outcome{results: []result{{scenario: matching(regexp.MustCompile(headline + "$"))[0],
			samples: [][]sample{at(20, 32), at(30, 55), at(24, 75)}}}},
	}
}

func TestMarkdown(t *testing.T) {
	page := testReport().markdown()
	for _, want := range []string{
		"Measured on 21 November 2026: some processor, 2 cores, linux/amd64, go1.26, load averages before the run 0.01 0.02 0.03.",
		"- Vitrine, traces unsampled: v9\n", "- net/http + encoding/json: standard library\n",
		"## tools/call over HTTP, modern\n", "### small message (300 bytes), 16 callers\n",
		"| Vitrine, traces unsampled | 24.0 (24.0–48.0) | 0.80 (0.80–0.80) | 1.20 | 75 | 4.1 | 200 | 1000 | 400 µs | 1.50 ms |\n",
	} {
		require.Contains(t, page, want)
	}
	var columns []int
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "|") {
			columns = append(columns, strings.Count(line, "|"))
		}
	}
	require.Equal(t, []int{11, 11, 11, 11, 11}, columns)
}

func TestPicture(t *testing.T) {
	picture := string(testReport().svg())
	require.Equal(t, 3+1, strings.Count(picture, "<rect"))
	require.Contains(t, picture, `width="430.0"`, "the longest bar")
	require.Contains(t, picture, `width="344.0"`, "24 of 30")
	for dec := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
	}
}

func TestHalves(t *testing.T) {
	r := testReport()
	for i, samples := range r.results[0].samples {
		for j := range samples {
			samples[j].half = half{rate: 500, requests: 100, p50: time.Millisecond, p99: time.Duration(i+1) * time.Millisecond, late: 20 * time.Microsecond}
		}
	}
	require.NotContains(t, r.markdown(), "at half of that load")
	r.results[0].scenario.half = true
	require.Contains(t, r.markdown(), "| Vitrine, traces unsampled | 500 | 1.00 ms | 3.00 ms | 1.50 (1.50–1.50) | 20 µs |\n")
}

func TestPageFigures(t *testing.T) {
	r := testReport()
	require.Equal(t, "24.0 µs", r.cpu("vitrine", headline))
	require.Equal(t, "0.80", r.times("vitrine", "floor", headline))
	require.Equal(t, "75", r.allocations("vitrine", headline))
	for _, got := range []string{
		r.cpu("vitrine", "http/list"), r.times("mcpgo", "floor", headline), r.allocations("mcpgo", headline),
		r.tail("vitrine", "floor", headline), r.stream("vitrine-scaled"), r.call("vitrine-scaled"), r.session(), r.flat(),
	} {
		require.Equal(t, unknown, got)
	}
	for i := range r.results[0].samples {
		for j := range r.results[0].samples[i] {
			r.results[0].samples[i][j].half = half{requests: 1, p99: time.Duration(4 - i)}
		}
	}
	require.Equal(t, "0.67", r.tail("vitrine", "floor", headline))
	r.scaled = testScale()
	require.Equal(t, "3.0 KB", r.stream("vitrine-scaled"))
	require.Equal(t, "4.0 KB", r.call("vitrine-scaled"))
	require.Equal(t, unknown, r.call("vitrine"))
	require.Equal(t, "2.2 KB", r.session())
	require.Equal(t, "1.03", r.flat())
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	r := testReport()
	r.scaled = testScale()
	r.results[0].parts = []parts{{}, {
		cpu:    map[string]float64{partKernel: 0.5, "net/http": 0.5},
		allocs: map[string]float64{"net/http": 0.2, "the handler": 0.8},
		bytes:  map[string]float64{"net/http": 0.5, "the handler": 0.5},
	}, {}}
	require.Equal(t, "| part | net/http + encoding/json: CPU µs | allocations | KB |\n|---|---:|---:|---:|\n"+
		"| system calls | 15.0 | 0.0 | 0.0 |\n| net/http | 15.0 | 11.0 | 2.0 |\n| the handler | 0.0 | 44.0 | 2.0 |\n", r.Parts())
	unmeasured, err := r.page("performance.svg")
	require.NoError(t, err)
	for _, claim := range []string{"## Size and start", "## What protection costs", "## A session for each call", "with GOGC=1000", "Missed:"} {
		require.NotContains(t, string(unmeasured), claim)
	}
	r.release, r.collector, r.sessions = testRelease(3), testCollector(), testSessions()
	for range 2 { // what it has written itself, it overwrites
		require.NoError(t, r.write(path))
	}
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, want := range []string{pageMark, "(performance.svg)", r.Conditions(), r.Servers(), r.Tables(), r.Scale(), r.Parts(),
		r.Release(), r.Collector(), r.Sessions(), r.Goals(), "otherwise. Missed: 6. ", "when there are 10 000,\n", "Beside 100 000 sessions and 10 000 open streams",
	} {
		require.Contains(t, string(page), want)
	}
	require.FileExists(t, strings.TrimSuffix(path, ".md")+".svg")
	require.NoError(t, os.WriteFile(path, []byte("by hand"), 0o644))
	require.Error(t, r.write(path), "nothing that was written by hand is lost")
	page, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "by hand", string(page))
}

func TestCPUModel(t *testing.T) {
	require.Equal(t, "AMD: EPYC", cpuModel([]byte("processor\t: 0\nmodel name\t: AMD: EPYC\nmodel name\t: other\n")))
	require.Equal(t, "unknown processor", cpuModel([]byte("processor : 0\n")))
}
