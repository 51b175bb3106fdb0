package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// pageText is the page without the figures. The explanations are written there by hand.
//
//go:embed performance.md.tmpl
var pageText string

// pageMark is the beginning of every page that the command has written. It overwrites no other
// file.
const pageMark = "<!-- Written by the command in bench/, out of bench/performance.md.tmpl. -->\n"

// page returns the whole page. picture is the address of its picture.
func (r report) page(picture string) ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"cpu": r.cpu, "times": r.times, "allocations": r.allocations, "tail": r.tail,
		"stream": r.stream, "call": r.call, "session": r.session, "flat": r.flat,
		"part": r.part, "share": r.share, "ownParts": r.ownParts, "validation": r.validation, "promised": r.promised, "promisedLegacy": r.promisedLegacy, "fraction": r.fraction,
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(pageMark)
	err = t.Execute(&b, struct {
		report
		Picture, StreamCount, CallCount, SessionCount string
	}{r, picture, thousands(r.scaled.scale.streams), thousands(r.scaled.scale.calls), thousands(r.scaled.scale.sessions)})
	return b.Bytes(), err
}

// write writes the page to a file, and the picture beside it.
func (r report) write(path string) error {
	picture := strings.TrimSuffix(path, filepath.Ext(path)) + ".svg"
	switch old, err := os.ReadFile(path); {
	case err == nil && !bytes.HasPrefix(old, []byte(pageMark)):
		return fmt.Errorf("%s was not written by this command", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	page, err := r.page(filepath.Base(picture))
	if err != nil {
		return err
	}
	if len(r.results) > 0 {
		if err := os.WriteFile(picture, r.svg(), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(path, page, 0o644)
}

// unknown stands for a figure that was not measured.
const unknown = "(not measured)"

// of returns the samples that a server has in a scenario, nil if it has none.
func (r report) of(server, scenario string) []sample {
	for _, res := range r.results {
		if i := r.index(server); i >= 0 && res.scenario.name() == scenario {
			return res.samples[i]
		}
	}
	return nil
}

// cpu returns the CPU time of one request, with its unit.
func (r report) cpu(server, scenario string) string {
	samples := r.of(server, scenario)
	if samples == nil {
		return unknown
	}
	return fmt.Sprintf("%.1f µs", spreadOf(samples, func(s sample) float64 { return micros(s.cpu) }).median)
}

// times returns the CPU time of one server as a multiple of that of another.
func (r report) times(server, other, scenario string) string {
	samples, base := r.of(server, scenario), r.of(other, scenario)
	if samples == nil || base == nil {
		return unknown
	}
	return fmt.Sprintf("%.2f", ratios(samples, base, cpuTimeOf).median)
}

// allocations returns the number of allocations of one request.
func (r report) allocations(server, scenario string) string {
	samples := r.of(server, scenario)
	if samples == nil {
		return unknown
	}
	return fmt.Sprintf("%.0f", spreadOf(samples, func(s sample) float64 { return s.mallocs }).median)
}

// tail returns the 99th percentile at half of the load as a multiple of that of another server.
func (r report) tail(server, other, scenario string) string {
	samples, base := r.of(server, scenario), r.of(other, scenario)
	if samples == nil || base == nil || base[0].half.requests == 0 {
		return unknown
	}
	return fmt.Sprintf("%.2f", ratios(samples, base, p99AtHalf).median)
}

// stream and call return the heap and stacks of an open stream and of a waiting call, minus those
// of net/http.
func (r report) stream(server string) string { return r.scaled.beyond(server, r.scaled.openStreams()) }

func (r report) call(server string) string { return r.scaled.beyond(server, r.scaled.calls) }

// session returns the heap and the stacks of an idle session.
func (r report) session() string {
	if r.scaled.session == nil {
		return unknown
	}
	return kilobytes(r.scaled.session.last().own())
}

// flat returns the CPU time of a call beside all sessions as a multiple of that beside as many as there are callers.
func (r report) flat() string {
	if r.scaled.cost == nil {
		return unknown
	}
	return fmt.Sprintf("%.2f", ratios(r.scaled.cost[len(r.scaled.cost)-1], r.scaled.cost[0], cpuTimeOf).median)
}
