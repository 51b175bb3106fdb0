package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A fleet is the processes that answer one load: one server, or several replicas of it.
type fleet []*process

// cpu returns the CPU time of all processes so far.
func (f fleet) cpu() (sum time.Duration, err error) {
	for _, p := range f {
		cpu, err := p.cpu()
		if err != nil {
			return 0, err
		}
		sum += cpu
	}
	return sum, nil
}

// stats returns the sums of the counters of all processes.
func (f fleet) stats() (sum stats, err error) {
	for _, p := range f {
		s, err := p.stats()
		if err != nil {
			return sum, err
		}
		sum.Mallocs += s.Mallocs
		sum.Bytes += s.Bytes
	}
	return sum, nil
}

// killIn kills all processes after d, unless off is called. Nothing else would end a process that
// hangs on a pipe.
func (f fleet) killIn(d time.Duration) (off func() bool) {
	return time.AfterFunc(d, func() {
		for _, p := range f {
			_ = p.cmd.Process.Kill()
		}
	}).Stop
}

// A contender is a server, or several replicas of one, and its load.
type contender struct {
	name  string
	fleet fleet
	load  load // nil until the fleet is ready for it
}

// A contest has contenders that take turns, so that other work of the machine affects all of them
// alike.
type contest []contender

// enter adds a server with the load of a scenario, and warms it up.
func (c *contest) enter(exe string, kind servers.Kind, s scenario, sink string, slice time.Duration) error {
	process, err := start(exe, kind, s, sink)
	if err != nil {
		return err
	}
	*c = append(*c, contender{name: kind.Name, fleet: fleet{process}})
	l, err := process.load(s)
	if err == nil {
		err = c.ready(l, slice)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind.Name, err)
	}
	return nil
}

// ready gives the last contender its load, and warms it up.
func (c contest) ready(l load, slice time.Duration) error {
	last := &c[len(c)-1]
	last.load = l
	return warmUp(last.fleet, l, slice)
}

// measure returns for each contender a sample of each round.
func (c contest) measure(rounds int, slice time.Duration) (samples [][]sample, err error) {
	samples = make([][]sample, len(c))
	for round := range rounds {
		for turn := range c {
			i := (turn + round) % len(c) // so that no server always follows the same one
			got, err := measureSlice(c[i].fleet, c[i].load, slice)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c[i].name, err)
			}
			samples[i] = append(samples[i], got)
		}
	}
	return samples, nil
}

// stop ends all loads and processes.
func (c contest) stop() (err error) {
	for _, one := range c {
		for _, p := range one.fleet {
			p.stdin.Close() // all end at the same time
		}
	}
	for _, one := range c {
		if one.load != nil {
			one.load.close()
		}
		for _, p := range one.fleet {
			err = errors.Join(err, p.stop())
		}
	}
	return err
}

// profile writes a profile of each contender, of several replicas that of the first one, if
// profiles are asked for.
func (p plan) profile(measured string, c contest) error {
	if p.profiles == "" {
		return nil
	}
	for _, one := range c {
		prof, err := one.fleet[0].profile(one.load, p.seconds)
		if err == nil {
			err = prof.write(p.profiles, measured+"/"+one.name)
		}
		if err != nil {
			return fmt.Errorf("profile of %s: %w", one.name, err)
		}
	}
	return nil
}
