package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A scale has the largest numbers of streams, calls and sessions at the same time, of replicas and of
// tools, and the sizes of long texts.
type scale struct {
	streams, calls, sessions int
	replicas, tools          int
	texts                    []int          // in bytes
	only                     *regexp.Regexp // which of them
}

// fullScale returns the scale of the report.
func fullScale(only *regexp.Regexp) scale {
	return scale{
		streams: 10_000, calls: 5000, sessions: 100_000, replicas: 3, tools: 1000,
		texts: []int{64 << 10, 1 << 20, 16 << 20}, only: only,
	}
}

func (s scale) streamsName() string  { return fmt.Sprintf("scale/streams/%d", s.streams) }
func (s scale) callsName() string    { return fmt.Sprintf("scale/calls/%d", s.calls) }
func (s scale) sessionsName() string { return fmt.Sprintf("scale/sessions/%d", s.sessions) }
func (s scale) replicasName() string { return fmt.Sprintf("scale/replicas/%d", s.replicas) }
func (s scale) toolsName() string    { return fmt.Sprintf("scale/tools/%d", s.tools) }
func (s scale) textsName() string    { return "scale/texts" }

// names returns the names for -only.
func (s scale) names() (matching []string) {
	for _, name := range []string{s.streamsName(), s.callsName(), s.sessionsName(), s.replicasName(), s.toolsName(), s.textsName()} {
		if s.only.MatchString(name) {
			matching = append(matching, name)
		}
	}
	return matching
}

// A scaleResult has the results of the scale; nil for those that were not measured.
type scaleResult struct {
	scale   scale
	kinds   []servers.Kind
	streams []streamsResult // one for each kind
	calls   []growth        // one for each kind
	session growth
	beside  []company
	cost    [][]sample // of a call beside each of them, one sample a round

	replicas [][][]sample  // of a call, for each kind at one replica, at two, and so on
	tools    []toolsResult // of tools/list and tools/call
	texts    []textResult  // of each of the sizes
}

// A company is what is open beside a call.
type company struct{ sessions, streams int }

// A streamsResult has the cost of open streams, and of notifying all of them of one change.
type streamsResult struct {
	growth  growth
	notices [][]notice // for each of the sizes one a round
}

// A notice is the cost of notifying all streams of one change.
type notice struct {
	listeners int
	took, cpu time.Duration
}

// openStreams returns the growth of each kind with its streams.
func (s scaleResult) openStreams() (all []growth) {
	for _, got := range s.streams {
		all = append(all, got.growth)
	}
	return all
}

// scaled measures the scale. The processes whose memory counts run one after the other, because each
// uses all descriptors of the client. Only those for the cost of a request take turns.
func (p plan) scaled(programs programs, sink string) (r scaleResult, err error) {
	r = scaleResult{scale: p.scale, kinds: servers.Scaled()}
	for _, name := range p.scale.names() {
		err := p.timed(name, func() (err error) {
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
			case p.scale.replicasName():
				r.replicas, err = p.replicas(programs, sink)
			case p.scale.toolsName():
				r.tools, err = p.manyTools(programs, sink)
			case p.scale.textsName():
				r.texts, err = p.texts(programs, sink)
			}
			return err
		})
		if err != nil {
			return r, err
		}
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

// before returns the footprint of a process after n responses were open and have ended: the
// memory that it allocates once and keeps.
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
	// Each response was at least one goroutine.
	err = process.wait(func(f footprint) bool { return f.Waiting == 0 && f.Goroutines <= with.Goroutines-float64(n) })
	if err != nil {
		return footprint{}, err
	}
	return process.footprint()
}

// someFirst is the number of responses that are opened and closed before the measurement. It is
// small, because a goroutine reuses the memory of an ended one.
const someFirst = 10

// acknowledged waits until the server has acknowledged a stream.
func acknowledged(c *conn) error { return c.waitFor("notifications/subscriptions/acknowledged") }

// streams opens more and more streams, and then closes them down to the same sizes, at which the
// server notifies all of them of a change in every round. That comes second, because a stream may
// grow with a notification.
func (p plan) streams(process *process) (r streamsResult, err error) {
	request := listening(process.addr)
	without, err := before(process, request, min(someFirst, p.scale.streams), acknowledged)
	if err != nil {
		return r, err
	}
	var all crowd
	defer func() { all.close() }()
	r.growth, err = process.grow(sizes(100, p.scale.streams), without, func(missing int) error {
		more, err := open(process.addr, request, missing, acknowledged)
		all = append(all, more...)
		return err
	})
	if err != nil {
		return r, err
	}
	r.notices = make([][]notice, len(r.growth))
	for i, size := range slices.Backward(r.growth) {
		all[size.n:].close()
		all = all[:size.n]
		// The server must notice the closed streams before it notifies the others.
		most := without.Goroutines + math.Ceil(size.each.Goroutines*float64(size.n)) + someFirst
		if err := process.wait(func(f footprint) bool { return f.Goroutines <= most }); err != nil {
			return r, err
		}
		if r.notices[i], err = p.notify(process, all); err != nil {
			return r, err
		}
	}
	return r, nil
}

// notify lets the server notify all streams of a change in every round.
func (p plan) notify(process *process, all crowd) (rounds []notice, err error) {
	for range p.rounds {
		cpuBefore, err := process.cpu()
		if err != nil {
			return nil, err
		}
		took, err := all.awaitAll("notifications/tools/list_changed", func() error {
			resp, err := client().Post("http://"+process.addr+changePath, "", nil)
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		cpuAfter, err := process.cpu()
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, notice{len(all), took, cpuAfter - cpuBefore})
	}
	return rounds, nil
}

// calls lets more and more calls wait.
func (p plan) calls(process *process) (growth, error) {
	request := holding(process.addr)
	without, err := before(process, request, min(someFirst, p.scale.calls), nil)
	if err != nil {
		return nil, err
	}
	var all crowd
	defer func() { all.close() }()
	return process.grow(sizes(100, p.scale.calls), without, func(missing int) error {
		more, err := open(process.addr, request, missing, nil)
		all = append(all, more...)
		if err != nil {
			return err
		}
		return process.wait(func(f footprint) bool { return f.Waiting == float64(len(all)) })
	})
}

// wait waits until wanted returns true for the footprint.
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

// callersOfSessions are so many that the process always has work: the CPU time of one that sleeps between two calls says more about
// sleeping and waking up.
const callersOfSessions = 16

// sessions measures the cost of a call beside as many sessions as there are callers, beside each of the sizes, and beside all
// sessions and streams, in processes that take turns. It also measures the footprint of a session while
// the last process grows.
func (p plan) sessions(r *scaleResult, programs programs, sink string) (err error) {
	kind, err := servers.Find("vitrine-scaled")
	if err != nil {
		return err
	}
	steps := sizes(1000, p.scale.sessions)
	r.beside = []company{{sessions: callersOfSessions}}
	for _, n := range steps {
		r.beside = append(r.beside, company{sessions: n})
	}
	r.beside = append(r.beside, company{p.scale.sessions, p.scale.streams})
	s := scenario{kind: call, legacy: true, size: small, tools: fewTools, callers: callersOfSessions}
	var all contest
	var streams crowd // of the last process
	defer func() {
		streams.close()
		err = errors.Join(err, all.stop())
	}()
	for i, beside := range r.beside {
		process, err := start(programs.of(kind), kind, s, sink)
		if err != nil {
			return err
		}
		all = append(all, contender{name: beside.name(), fleet: fleet{process}})
		grows := []int{beside.sessions}
		if i == len(r.beside)-1 {
			grows = steps
		}
		var ids []string
		if ids, r.session, err = growSessions(process, grows); err != nil { // the growth of the last process counts
			return err
		}
		if streams, err = open(process.addr, listening(process.addr), beside.streams, acknowledged); err != nil {
			return err
		}
		l, err := newSessionsLoad(s, process.addr, ids)
		if err != nil {
			return err
		}
		if err := all.ready(l, p.slice); err != nil {
			return err
		}
	}
	if r.cost, err = all.measure(goalRounds*p.rounds, p.slice); err != nil {
		return err
	}
	if err := all[len(all)-1].fleet[0].stillOpen(p.scale.streams); err != nil {
		return err
	}
	return p.profile(p.scale.sessionsName(), all)
}

// stillOpen returns an error if some of n streams have ended. Each is at least one goroutine.
func (p *process) stillOpen(n int) error {
	var f footprint
	if err := p.get(footprintPath, &f); err != nil {
		return err
	}
	if f.Goroutines < float64(n) {
		return fmt.Errorf("of %d streams some have ended: there are %.0f goroutines", n, f.Goroutines)
	}
	return nil
}

// name is used for profiles and errors.
func (c company) name() string { return fmt.Sprintf("%d-sessions-%d-streams", c.sessions, c.streams) }

// growSessions opens sessions up to each of the sizes. It returns their ids in random order, and
// the growth of the process.
func growSessions(process *process, sizes []int) (ids []string, grown growth, err error) {
	if _, err := openSessions(process.addr, 1); err != nil { // so that memory for the first session does not count
		return nil, nil, err
	}
	without, err := process.footprint()
	if err != nil {
		return nil, nil, err
	}
	grown, err = process.grow(sizes, without, func(missing int) error {
		more, err := openSessions(process.addr, missing)
		ids = append(ids, more...)
		return err
	})
	shuffle(ids)
	return ids, grown, err
}
