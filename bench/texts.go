package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A textResult has the samples of a call whose argument and result are one long text, for each kind of
// [servers.Reading].
type textResult struct {
	bytes   int // of the text
	samples [][]sample
}

// texts measures calls whose argument and result are one text, of each of the sizes.
func (p plan) texts(programs programs, sink string) (all []textResult, err error) {
	for _, bytes := range p.scale.texts {
		samples, err := p.text(bytes, programs, sink)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", textSize(bytes), err)
		}
		all = append(all, textResult{bytes, samples})
	}
	return all, nil
}

func (p plan) text(bytes int, programs programs, sink string) (samples [][]sample, err error) {
	var all contest
	defer func() { err = errors.Join(err, all.stop()) }()
	s := scenario{kind: call, size: size{bytes: bytes, plain: true}, tools: fewTools, callers: 1}
	slice := 4 * p.slice // a long text takes a tenth of a second
	for _, k := range servers.Reading() {
		if err := all.enter(programs.of(k), k, s, sink, slice); err != nil {
			return nil, err
		}
	}
	if samples, err = all.measure(p.rounds, slice); err != nil {
		return nil, err
	}
	return samples, p.profile(p.scale.textsName()+"/"+fmt.Sprint(bytes), all)
}

// textual writes the table of the long texts.
func (s scaleResult) textual(b *strings.Builder) {
	row := head(b, "server", "text", "CPU ms of a MB, in and out", "× bare", "× all by hand", "allocations", "bytes allocated, × text", "p50")
	for i, k := range servers.Reading() {
		for _, r := range s.texts {
			samples := r.samples[i]
			median := func(value func(sample) float64) float64 { return spreadOf(samples, value).median }
			row(
				k.Title, textSize(r.bytes),
				format("%.2f", spreadOf(samples, func(s sample) float64 { return s.cpu.Seconds() * 1e3 / (float64(r.bytes) / 1e6) })),
				format("%.2f", ratios(samples, r.samples[0], cpuTimeOf)),
				format("%.2f", ratios(samples, r.of(servers.RoomyPromised), cpuTimeOf)),
				fmt.Sprintf("%.0f", median(func(s sample) float64 { return s.mallocs })),
				fmt.Sprintf("%.2f", median(func(s sample) float64 { return s.bytes })/float64(r.bytes)),
				duration(median(func(s sample) float64 { return float64(s.p50) })),
			)
		}
	}
}

// of returns the samples of one of the servers.
func (r textResult) of(server string) []sample {
	return r.samples[slices.IndexFunc(servers.Reading(), func(k servers.Kind) bool { return k.Name == server })]
}

// textGoal returns the CPU time of a call with a text of some bytes to Vitrine as package service runs it, as a multiple of that of
// the server by hand with all promises.
func textGoal(bytes int) func(report) (float64, bool) {
	return func(r report) (float64, bool) {
		i := slices.IndexFunc(r.scaled.texts, func(t textResult) bool { return t.bytes == bytes })
		if i < 0 {
			return 0, false
		}
		text := r.scaled.texts[i]
		return ratios(text.of(servers.RoomyService), text.of(servers.RoomyPromised), cpuTimeOf).median, true
	}
}

// textSize prints a number of bytes.
func textSize(bytes int) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}
