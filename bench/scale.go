package main

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A scale is how many of everything there are at once.
type scale struct {
	streams, calls, sessions int
	only                     *regexp.Regexp // which of the three
}

// fullScale is what the report is about.
func fullScale(only *regexp.Regexp) scale {
	return scale{streams: 10_000, calls: 1000, sessions: 100_000, only: only}
}

func (s scale) streamsName() string  { return fmt.Sprintf("scale/streams/%d", s.streams) }
func (s scale) callsName() string    { return fmt.Sprintf("scale/calls/%d", s.calls) }
func (s scale) sessionsName() string { return fmt.Sprintf("scale/sessions/%d", s.sessions) }

// names are what -only is matched with.
func (s scale) names() (matching []string) {
	for _, name := range []string{s.streamsName(), s.callsName(), s.sessionsName()} {
		if s.only.MatchString(name) {
			matching = append(matching, name)
		}
	}
	return matching
}

// A scaleResult is what the scale has given; nil where nothing was measured.
type scaleResult struct {
	scale   scale
	kinds   []servers.Kind
	streams []streamsResult // one for each kind
	calls   []footprint     // of one call, for each kind
	session footprint       // of one
	counts  []int           // of sessions
	cost    [][]sample      // of a call, for each of the counts one sample a round
}

// A streamsResult is what open streams cost, and telling all of them of one change.
type streamsResult struct {
	each footprint
	told []told // one a round
}

// A told is one change that everybody was told of.
type told struct{ took, cpu time.Duration }

// scaled measures the scale. Processes come one after the other, because each takes the
// descriptors that one client may have; only those for the cost of a call take turns.
func (p plan) scaled(programs programs, sink string) (r scaleResult, err error) {
	r = scaleResult{scale: p.scale, kinds: servers.Scaled()}
	for _, name := range p.scale.names() {
		began := time.Now()
		fmt.Fprintf(p.progress, "%s ...", name)
		switch name {
		case p.scale.streamsName():
			err = p.eachKind(r.kinds, programs, sink, func(process *process) error {
				got, err := p.streams(process)
				r.streams = append(r.streams, got)
				return err
			})
		case p.scale.callsName():
			err = p.eachKind(r.kinds, programs, sink, func(process *process) error {
				got, err := p.calls(process)
				r.calls = append(r.calls, got)
				return err
			})
		case p.scale.sessionsName():
			err = p.sessions(&r, programs, sink)
		}
		if err != nil {
			fmt.Fprintln(p.progress)
			return r, fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(p.progress, " %.1f s\n", time.Since(began).Seconds())
	}
	return r, nil
}

// eachKind measures a process of each kind.
func (p plan) eachKind(kinds []servers.Kind, programs programs, sink string, measure func(*process) error) error {
	for _, k := range kinds {
		process, err := start(programs.of(k), k, scenario{tools: fewTools}, sink)
		if err != nil {
			return err
		}
		if err := errors.Join(measure(process), process.stop()); err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	return nil
}

// before returns what a process keeps in memory when n responses have been open and are
// not any more: what it makes once, and keeps.
func before(process *process, request []byte, n int, ready func(*conn) error) (footprint, error) {
	c, err := open(process.addr, request, n, ready)
	if err != nil {
		return footprint{}, err
	}
	if err := process.wait(func(f footprint) bool { return ready != nil || f.Waiting == float64(n) }); err != nil {
		return footprint{}, err
	}
	with, err := process.footprint()
	c.close()
	if err != nil {
		return footprint{}, err
	}
	// Each was a goroutine at least.
	err = process.wait(func(f footprint) bool { return f.Waiting == 0 && f.Goroutines <= with.Goroutines-float64(n) })
	if err != nil {
		return footprint{}, err
	}
	return process.footprint()
}

// someFirst is how many are opened, and closed again, before what is measured.
const someFirst = 50

// streams opens streams, and tells all of them of a change in every round.
func (p plan) streams(process *process) (r streamsResult, err error) {
	acknowledged := func(c *conn) error { return c.waitFor("notifications/subscriptions/acknowledged") }
	request := listening(process.addr)
	without, err := before(process, request, min(someFirst, p.scale.streams), acknowledged)
	if err != nil {
		return r, err
	}
	c, err := open(process.addr, request, p.scale.streams, acknowledged)
	if err != nil {
		return r, err
	}
	defer c.close()
	with, err := process.footprint()
	if err != nil {
		return r, err
	}
	r.each = with.minus(without, p.scale.streams)
	for range p.rounds {
		cpuBefore, err := process.cpu()
		if err != nil {
			return r, err
		}
		took, err := c.everybody("notifications/tools/list_changed", func() error {
			resp, err := client().Post("http://"+process.addr+changePath, "", nil)
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		})
		if err != nil {
			return r, err
		}
		cpuAfter, err := process.cpu()
		if err != nil {
			return r, err
		}
		r.told = append(r.told, told{took, cpuAfter - cpuBefore})
	}
	return r, nil
}

// calls lets calls wait, and returns what each costs.
func (p plan) calls(process *process) (each footprint, err error) {
	request := holding(process.addr)
	without, err := before(process, request, min(someFirst, p.scale.calls), nil)
	if err != nil {
		return each, err
	}
	c, err := open(process.addr, request, p.scale.calls, nil)
	if err != nil {
		return each, err
	}
	defer c.close()
	if err := process.wait(func(f footprint) bool { return f.Waiting == float64(p.scale.calls) }); err != nil {
		return each, err
	}
	with, err := process.footprint()
	return with.minus(without, p.scale.calls), err
}

// wait waits until the footprint is as wanted.
func (p *process) wait(wanted func(footprint) bool) error {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var f footprint
		if err := p.get(footprintPath, &f); err != nil {
			return err
		}
		if wanted(f) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("it does not come to rest: %+v", f)
		}
	}
}

// sessions measures the cost of a call beside 1, 1000 and as many sessions as the scale
// has, which take turns, and the footprint of a session.
func (p plan) sessions(r *scaleResult, programs programs, sink string) (err error) {
	kind, err := servers.Find("vitrine-scaled")
	if err != nil {
		return err
	}
	r.counts = []int{1, min(1000, p.scale.sessions), p.scale.sessions}
	r.cost = make([][]sample, len(r.counts))
	s := scenario{kind: call, legacy: true, size: small, tools: fewTools, callers: 1}
	var processes []*process
	var loads []*httpLoad
	defer func() {
		for _, l := range loads {
			l.close()
		}
		for _, process := range processes {
			err = errors.Join(err, process.stop())
		}
	}()
	for _, n := range r.counts {
		process, err := start(programs.of(kind), kind, s, sink)
		if err != nil {
			return err
		}
		processes = append(processes, process)
		if _, err := openSessions(process.addr, 1); err != nil { // what is made once, and kept
			return err
		}
		without, err := process.footprint()
		if err != nil {
			return err
		}
		ids, err := openSessions(process.addr, n)
		if err != nil {
			return err
		}
		with, err := process.footprint()
		if err != nil {
			return err
		}
		r.session = with.minus(without, n) // that of the last remains
		l, err := newSessionsLoad(s, process.addr, ids)
		if err != nil {
			return err
		}
		loads = append(loads, l)
		if err := warmUp(process, l, p.slice); err != nil {
			return err
		}
	}
	for round := range p.rounds {
		for turn := range processes {
			i := (turn + round) % len(processes)
			got, err := measureSlice(processes[i], loads[i], p.slice)
			if err != nil {
				return err
			}
			r.cost[i] = append(r.cost[i], got)
		}
	}
	return nil
}
