package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A plan is what is measured, and for how long.
type plan struct {
	scenarios []scenario
	kinds     []servers.Kind
	rounds    int
	slice     time.Duration
	profiles  string // the folder for profiles; empty makes none
	seconds   int    // of each profile
	progress  io.Writer
}

// A result is what one scenario has given: for each kind of the plan one sample a round.
type result struct {
	scenario scenario
	samples  [][]sample
}

// run measures one scenario after the other.
func (p plan) run() (results []result, err error) {
	sink := newSink()
	defer sink.Close()
	for _, s := range p.scenarios {
		fmt.Fprintf(p.progress, "%s ...", s.name())
		began := time.Now()
		r, err := p.measure(s, sink.url())
		if err != nil {
			fmt.Fprintln(p.progress)
			return nil, fmt.Errorf("%s: %w", s.name(), err)
		}
		fmt.Fprintf(p.progress, " %.1f s\n", time.Since(began).Seconds())
		results = append(results, r)
	}
	if slices.ContainsFunc(p.kinds, func(k servers.Kind) bool { return k.Name == "vitrine-sampled" }) && sink.exports.Load() == 0 {
		return nil, errors.New("the sampled server has exported nothing")
	}
	return results, nil
}

// measure runs all servers of one scenario, each in short slices that take turns, so that
// whatever else the machine does falls on all of them alike.
func (p plan) measure(s scenario, sink string) (r result, err error) {
	r = result{scenario: s, samples: make([][]sample, len(p.kinds))}
	processes, loads := make([]*process, len(p.kinds)), make([]load, len(p.kinds))
	defer func() {
		for _, p := range processes {
			if p != nil {
				p.stdin.Close() // all end at the same time
			}
		}
		for i := range processes {
			if loads[i] != nil {
				loads[i].close()
			}
			if processes[i] != nil {
				err = errors.Join(err, processes[i].stop())
			}
		}
	}()
	for i, k := range p.kinds {
		if processes[i], err = start(k, s, sink); err != nil {
			return r, err
		}
		if loads[i], err = processes[i].load(s); err != nil {
			return r, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	for round := range p.rounds {
		for turn := range p.kinds {
			i := (turn + round) % len(p.kinds) // nobody is always behind the same one
			got, err := measureSlice(processes[i], loads[i], p.slice)
			if err != nil {
				return r, fmt.Errorf("%s: %w", p.kinds[i].Name, err)
			}
			r.samples[i] = append(r.samples[i], got)
		}
	}
	if p.profiles == "" {
		return r, nil
	}
	for i, process := range processes {
		if err := process.profile(s, loads[i], p.profiles, p.seconds); err != nil {
			return r, fmt.Errorf("profile of %s: %w", p.kinds[i].Name, err)
		}
	}
	return r, nil
}

// measureSlice measures one server for a slice of time, after a tenth as long to warm up.
func measureSlice(p *process, l load, d time.Duration) (s sample, err error) {
	// A server that hangs on a pipe is noticed by nobody else.
	hung := time.AfterFunc(2*d+patience, func() { _ = p.cmd.Process.Kill() })
	defer hung.Stop()
	if _, err := l.run(d / 10); err != nil {
		return s, err
	}
	statsBefore, err := p.stats()
	if err != nil {
		return s, err
	}
	cpuBefore, err := p.cpu()
	if err != nil {
		return s, err
	}
	began := time.Now()
	took, err := l.run(d)
	if err != nil {
		return s, err
	}
	s.took = time.Since(began)
	cpuAfter, err := p.cpu()
	if err != nil {
		return s, err
	}
	statsAfter, err := p.stats()
	if err != nil {
		return s, err
	}
	slices.Sort(took)
	s.requests, s.answer = len(took), l.size()
	s.p50, s.p99 = quantile(took, 0.50), quantile(took, 0.99)
	s.cpu = (cpuAfter - cpuBefore) / time.Duration(s.requests)
	s.mallocs = float64(statsAfter.Mallocs-statsBefore.Mallocs) / float64(s.requests)
	s.bytes = float64(statsAfter.Bytes-statsBefore.Bytes) / float64(s.requests)
	return s, nil
}

// A sink takes OTLP traces and forgets them.
type sink struct {
	*httptest.Server
	exports atomic.Int64
}

func newSink() *sink {
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			s.exports.Add(1)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	return s
}

func (s *sink) url() string { return s.URL + "/v1/traces" }
