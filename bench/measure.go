package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A plan says what is measured, and for how long.
type plan struct {
	scenarios []scenario
	scale     scale
	kinds     []servers.Kind
	rounds    int
	slice     time.Duration
	profiles  string        // the folder for profiles; empty makes none
	parts     bool          // whether profiles of the headline are divided into parts
	seconds   int           // of each profile
	extras    []string      // names of measurements that are neither a scenario nor the scale
	starts    int           // of each program of the release
	users     int           // of a shop
	pause     time.Duration // in which the idle processes of the release are not used
	scrape    time.Duration // between two scrapes of them
	progress  io.Writer
}

// A result is the outcome of one scenario: for each kind of the plan one sample a round.
type result struct {
	scenario scenario
	samples  [][]sample
	parts    []parts // for each kind; nil if they were not asked for
}

// An outcome has all results of a run.
type outcome struct {
	results        []result
	collector      result        // like the following results without samples if it was not measured
	checking       time.Duration // the time of a full validation
	promises       result
	promisesLegacy result
	protected      result
	everything     result
	sessions       map[string]result // of the shops, by the name of the measurement
	scaled         scaleResult
	release        releaseResult
}

// The names of further measurements, for -only.
const (
	extraPromises       = "promises/modern"
	extraPromisesLegacy = "promises/legacy"
	extraProtected      = "protected"
	extraEverything     = "everything"
	extraCollector      = "collector/gogc"
	extraValidation     = "validation"
	extraRelease        = "release"
)

// extras returns the further measurements whose name matches.
func extras(only *regexp.Regexp) []string {
	return slices.DeleteFunc([]string{extraPromises, extraPromisesLegacy, extraProtected, extraEverything, extraSessions, extraSessionsForever, extraCollector, extraValidation, extraRelease}, func(name string) bool { return !only.MatchString(name) })
}

// programs are the paths of this program as it is, and with the mended module if a kind needs
// that.
type programs struct{ plain, mended string }

func (p programs) of(k servers.Kind) string {
	if k.Mended {
		return p.mended
	}
	return p.plain
}

// programs finds the programs, or builds them below a folder.
func (p plan) programs(dir string) (paths programs, err error) {
	if paths.plain, err = os.Executable(); err != nil {
		return paths, err
	}
	if len(p.scenarios) > 0 && slices.ContainsFunc(p.kinds, func(k servers.Kind) bool { return k.Mended }) {
		fmt.Fprintln(p.progress, "building a mended "+goSDK+" ...")
		paths.mended, err = buildMended(dir)
	}
	return paths, err
}

// run measures all scenarios one after the other, and then everything else.
func (p plan) run() (o outcome, err error) {
	sink := newSink()
	defer sink.Close()
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return o, err
	}
	defer os.RemoveAll(dir)
	programs, err := p.programs(dir)
	if err != nil {
		return o, err
	}
	for _, s := range p.scenarios {
		err := p.timed(s.name(), func() error {
			r, err := p.measure(s, programs, sink.url())
			o.results = append(o.results, r)
			return err
		})
		if err != nil {
			return o, err
		}
	}
	if len(p.scenarios) > 0 && slices.ContainsFunc(p.kinds, func(k servers.Kind) bool { return k.Name == "vitrine-sampled" }) && sink.exports.Load() == 0 {
		return o, errors.New("the sampled server has exported nothing")
	}
	for _, name := range p.extras {
		err := p.timed(name, func() (err error) {
			switch name {
			case extraCollector:
				o.collector, err = p.collector(programs, sink.url())
			case extraValidation:
				o.checking, err = p.validation()
			case extraPromises:
				o.promises, err = p.promises(headline, servers.Promises(), programs, sink.url())
			case extraPromisesLegacy:
				kinds := servers.Promises()
				o.promisesLegacy, err = p.promises(goalLegacy, kinds[:len(kinds)-1], programs, sink.url())
			case extraProtected:
				o.protected, err = p.protected(programs, sink.url())
			case extraEverything:
				if o.everything, err = p.everything(programs, sink.url()); err == nil && sink.exports.Load() == 0 {
					err = errors.New("the server has exported nothing")
				}
			case extraSessions, extraSessionsForever:
				if o.sessions == nil {
					o.sessions = map[string]result{}
				}
				o.sessions[name], err = p.shops(programs, name == extraSessionsForever)
			case extraRelease:
				o.release, err = p.release(dir)
			}
			return err
		})
		if err != nil {
			return o, err
		}
	}
	o.scaled, err = p.scaled(programs, sink.url())
	return o, err
}

// timed runs a measurement with a name, and reports its progress.
func (p plan) timed(name string, measure func() error) error {
	fmt.Fprintf(p.progress, "%s ...", name)
	began := time.Now()
	if err := measure(); err != nil {
		fmt.Fprintln(p.progress)
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(p.progress, " %.1f s\n", time.Since(began).Seconds())
	return nil
}

// promises measures the call of an era at servers with more and more promises, in as many rounds as
// the goals have.
func (p plan) promises(scenario string, kinds []servers.Kind, programs programs, sink string) (result, error) {
	p.kinds, p.profiles, p.parts = kinds, "", false
	return p.measure(matching(regexp.MustCompile("^" + scenario + "$"))[0], programs, sink)
}

// protected measures the headline of servers with more and more protection. Each request has an
// access token.
func (p plan) protected(programs programs, sink string) (result, error) {
	p.kinds, p.profiles, p.parts = servers.Protected(), "", false
	s := matching(regexp.MustCompile("^" + headline + "$"))[0]
	s.token = true
	return p.measure(s, programs, sink)
}

// collector measures the headline of servers with the garbage collector as it is, and
// with fewer runs of it.
func (p plan) collector(programs programs, sink string) (result, error) {
	p.kinds, p.profiles, p.parts = servers.Relaxed(), "", false
	return p.measure(matching(regexp.MustCompile("^" + headline + "$"))[0], programs, sink)
}

// measure runs all servers of one scenario in short slices that take turns.
func (p plan) measure(s scenario, programs programs, sink string) (r result, err error) {
	r = result{scenario: s}
	var all contest
	defer func() { err = errors.Join(err, all.stop()) }()
	for _, k := range p.kinds {
		if err := all.enter(programs.of(k), k, s, sink, p.slice); err != nil {
			return r, err
		}
	}
	if r.samples, err = all.measure(p.roundsOf(s), p.slice); err != nil {
		return r, err
	}
	if err := p.divide(&r, all); err != nil {
		return r, err
	}
	return r, p.profile(s.name(), all)
}

// roundsOf returns the number of rounds of a scenario. There are more if a goal is about a few
// per cent.
func (p plan) roundsOf(s scenario) int {
	if name := s.name(); name == goalCall || name == goalLegacy {
		return goalRounds * p.rounds
	}
	return p.rounds
}

// divide divides the CPU time of the headline into parts, if that is asked for.
func (p plan) divide(r *result, all contest) error {
	if !p.parts || r.scenario.name() != headline {
		return nil
	}
	r.parts = make([]parts, len(all))
	for i, one := range all {
		if !slices.Contains(divided, one.name) {
			continue
		}
		prof, err := one.fleet[0].profile(one.load, p.seconds)
		if err == nil {
			r.parts[i], err = prof.divide()
		}
		if err != nil {
			return fmt.Errorf("parts of %s: %w", one.name, err)
		}
	}
	return nil
}

// warmUp sends requests to a server for a while before it is measured.
func warmUp(f fleet, l load, slice time.Duration) error {
	defer f.killIn(slice + patience)()
	_, err := l.run(slice / 4)
	return err
}

// measureSlice measures one server, or several replicas of it, for a slice of time.
func measureSlice(f fleet, l load, d time.Duration) (s sample, err error) {
	defer f.killIn(4*d + patience)()
	statsBefore, err := f.stats()
	if err != nil {
		return s, err
	}
	cpuBefore, err := f.cpu()
	if err != nil {
		return s, err
	}
	began := time.Now()
	took, err := l.run(d)
	if err != nil {
		return s, err
	}
	s.took = time.Since(began)
	time.Sleep(f[0].kind.Exports) // otherwise the next server would pay for the export
	cpuAfter, err := f.cpu()
	if err != nil {
		return s, err
	}
	statsAfter, err := f.stats()
	if err != nil {
		return s, err
	}
	slices.Sort(took)
	s.requests, s.answer = len(took), l.size()
	s.p50, s.p99 = quantile(took, 0.50), quantile(took, 0.99)
	s.cpu = (cpuAfter - cpuBefore) / time.Duration(s.requests)
	s.mallocs = float64(statsAfter.Mallocs-statsBefore.Mallocs) / float64(s.requests)
	s.bytes = float64(statsAfter.Bytes-statsBefore.Bytes) / float64(s.requests)
	if l, ok := l.(*httpLoad); ok && l.scenario.half {
		s.half, err = l.open(s.rate()/2, 2*d)
	}
	return s, err
}

// A sink accepts OTLP traces and ignores them.
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
