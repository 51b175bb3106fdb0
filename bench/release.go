package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// releaseFlags are the arguments of go build with which the Dockerfile builds a release.
var releaseFlags = []string{"-mod=readonly", "-trimpath", "-buildvcs=auto", "-tags=grpcnotrace", "-ldflags=-s -w -buildid="}

// releasedPrograms returns the demonstration service as in its image, and a program with net/http
// and nothing else, whose figures are subtracted.
func releasedPrograms() []program {
	return []program{
		{title: "Vitrine", module: "..", source: "./cmd/vitrine",
			args: []string{"serve", "--addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--log-format=json"}, scraped: true},
		{title: "net/http", module: ".", source: "./hello", echoes: true},
	}
}

// A releaseResult has the sizes and times of a release.
type releaseResult struct {
	pause    time.Duration // without use of the idle processes
	programs []programResult
}

type programResult struct {
	program  program
	size     int64 // of the binary, in bytes
	launches []launch
	idle     [moments][]memory // of each process
}

// The moments at which the memory of an idle process is read, in their order. The last one is
// that of a process that is scraped again and again.
const (
	afterAnswer = iota
	afterPause
	afterScrape
	afterScrapes
	moments
)

// The number of idle processes of each program, and of the scrapes at the end.
const (
	idlers      = 3
	manyScrapes = 40
)

// release builds the programs below a folder, starts them in turn, and reads their memory.
func (p plan) release(dir string) (r releaseResult, err error) {
	r.pause = p.pause
	empty := filepath.Join(dir, "empty") // the demonstration searches its own folder
	if err := os.Mkdir(empty, 0o755); err != nil {
		return r, err
	}
	for _, prog := range releasedPrograms() {
		prog.path = filepath.Join(dir, filepath.Base(prog.source))
		if err := prog.build(); err != nil {
			return r, err
		}
		info, err := os.Stat(prog.path)
		if err != nil {
			return r, err
		}
		r.programs = append(r.programs, programResult{program: prog, size: info.Size()})
	}
	for round := range p.starts {
		for turn := range r.programs {
			one := &r.programs[(turn+round)%len(r.programs)]
			s, l, err := one.program.launch(empty)
			if err != nil {
				return r, err
			}
			s.stop()
			one.launches = append(one.launches, l)
		}
	}
	return r, p.rest(&r, empty)
}

// rest reads the memory of idle processes of all programs.
func (p plan) rest(r *releaseResult, dir string) error {
	services := make([][]*service, len(r.programs))
	defer func() {
		for _, some := range services {
			for _, s := range some {
				s.stop()
			}
		}
	}()
	look := func(moment int) error {
		for i := range services {
			for _, s := range services[i] {
				m, err := s.memory()
				if err != nil {
					return err
				}
				r.programs[i].idle[moment] = append(r.programs[i].idle[moment], m)
			}
		}
		return nil
	}
	for i, one := range r.programs {
		for range idlers {
			s, _, err := one.program.launch(dir)
			if err != nil {
				return err
			}
			services[i] = append(services[i], s)
		}
	}
	if err := look(afterAnswer); err != nil {
		return err
	}
	time.Sleep(r.pause)
	if err := look(afterPause); err != nil {
		return err
	}
	for _, step := range []struct{ moment, scrapes int }{{afterScrape, 1}, {afterScrapes, manyScrapes - 1}} {
		for range step.scrapes {
			if err := r.scrape(services); err != nil {
				return err
			}
			time.Sleep(p.scrape) // a process that is scraped without a pause is not idle
		}
		if err := look(step.moment); err != nil {
			return err
		}
	}
	return nil
}

// scrape scrapes each of the idle processes that have metrics.
func (r *releaseResult) scrape(services [][]*service) error {
	for i, some := range services {
		for _, s := range some {
			if !r.programs[i].program.scraped {
				continue
			}
			if err := s.scrape(); err != nil {
				return fmt.Errorf("scrape of %s: %w", s.title, err)
			}
		}
	}
	return nil
}
