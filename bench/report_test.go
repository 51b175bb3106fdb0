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
		results: []result{{scenario: matching(regexp.MustCompile(headline + "$"))[0],
			samples: [][]sample{at(20, 32), at(30, 55), at(24, 75)}}},
	}
}

func TestMarkdown(t *testing.T) {
	page := testReport().markdown("p.svg")
	for _, want := range []string{
		"Measured on 21 November 2026: some processor, 2 cores, linux/amd64, go1.26, load averages before the run 0.01 0.02 0.03.",
		"- Vitrine, traces unsampled: v9\n", "- net/http + encoding/json: standard library\n", "(p.svg)",
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

func TestSplice(t *testing.T) {
	page, err := splice(nil, "one\n")
	require.NoError(t, err)
	require.Equal(t, "# Performance\n\n"+beginMark+"\n\none\n\n"+endMark+"\n", string(page))
	page, err = splice([]byte("by hand\n"+string(page)+"more by hand\n"), "two\n")
	require.NoError(t, err)
	require.Equal(t, "by hand\n# Performance\n\n"+beginMark+"\n\ntwo\n\n"+endMark+"\nmore by hand\n", string(page))
	for _, bad := range []string{"by hand", beginMark, endMark + beginMark} {
		_, err = splice([]byte(bad), "x")
		require.Error(t, err, bad)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	require.NoError(t, testReport().write(path))
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(page), "(performance.svg)")
	require.FileExists(t, strings.TrimSuffix(path, ".md")+".svg")
	require.NoError(t, os.WriteFile(path, []byte("by hand"), 0o644))
	require.Error(t, testReport().write(path), "nothing that was written by hand is lost")
	page, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "by hand", string(page))
}

func TestCPUModel(t *testing.T) {
	require.Equal(t, "AMD: EPYC", cpuModel([]byte("processor\t: 0\nmodel name\t: AMD: EPYC\nmodel name\t: other\n")))
	require.Equal(t, "unknown processor", cpuModel([]byte("processor : 0\n")))
}
