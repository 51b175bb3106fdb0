package session

import (
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/internal/stream"
)

// The schedule explorer runs a race in many orders. Goroutines in a bubble stop at
// the yield points, and actors before each of their steps; when nothing moves any
// more, the schedule says who goes next. A failure prints the schedule, and
//
//	go test ./internal/session -run 'TestRace/<race>$' -schedule <schedule>
//
// runs it again.
var (
	scheduleFlag  = flag.String("schedule", "", "run only this schedule of the race, as a failure has printed it")
	schedulesFlag = flag.Int("schedules", 150, "how many random schedules a race gets that has too many for all; make races runs 1000")
	seedFlag      = flag.Uint64("schedule.seed", 1, "the seed of the first random schedule")
)

// everyOrder is how many schedules a race may have if it is to be run in all of them.
const everyOrder = 4000

// A race is a test that runs in many schedules. script sets the scene, names the
// actors, and calls run; what it checks then holds in every schedule.
type race struct {
	name   string
	limits limits.Limits
	random bool // it has too many schedules for all
	points []point
	script func(x *explorer)
	// endings are what the script must have seen over all schedules (see saw), so that a
	// race in which one side always wins does not pass for a test.
	endings []string
}

// allPoints are the yield points at which races hold requests unless they say otherwise.
var allPoints = []point{pointAdmitted, pointBeforeSettle, pointAfterSettle, pointBeforeWrite, pointAfterFlush, pointBeforeNotify, pointIdle}

var pointNames = []string{"admitted", "before settle", "after settle", "before write", "after flush", "before notify", "idle"}

func TestRace(t *testing.T) {
	for n, variants := range races {
		for _, r := range variants {
			t.Run(fmt.Sprintf("%d-%s", n, r.name), func(t *testing.T) {
				t.Parallel()
				r.test(t)
			})
		}
	}
}

// TestRacesAreComplete fails when a race of the matrix has no test.
func TestRacesAreComplete(t *testing.T) {
	for n := 1; n <= 18; n++ {
		require.NotEmpty(t, races[n], "race %d", n)
	}
	require.Len(t, races, 18)
}

func (r *race) test(t *testing.T) {
	seen := map[string]int{}
	ran := 0
	switch {
	case *scheduleFlag != "":
		r.once(t, replay(*scheduleFlag), seen)
		return
	case r.random:
		n := *schedulesFlag
		if needs.Short(t, "session/most random schedules of races") {
			n = min(n, 40)
		}
		for i := range uint64(n) {
			r.once(t, randomly(r.name, *seedFlag+i), seen)
			ran++
		}
	default:
		for c := inOrder(nil); c != nil; c = c.following() {
			r.once(t, c, seen)
			ran++
			require.LessOrEqual(t, ran, everyOrder, "too many schedules for all of them: make the race random")
		}
	}
	t.Logf("%d schedules%s, endings %v", ran, map[bool]string{false: " (all)"}[r.random], seen)
	for _, ending := range r.endings {
		require.NotZero(t, seen[ending], "no schedule has ended with %s: %v", ending, seen)
	}
	require.Len(t, seen, len(r.endings), "unexpected endings: %v", seen)
}

// once runs one schedule.
func (r *race) once(t *testing.T, c *choices, seen map[string]int) {
	t.Helper()
	var x *explorer
	defer func() {
		v := recover() // a bubble that cannot end
		if v != nil {
			t.Errorf("%v", v)
		}
		if t.Failed() && x != nil {
			t.Fatalf("%s, schedule %s:\n\t%s", c.source, c.taken(), strings.Join(x.trace, "\n\t"))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		x = newExplorer(t, r, c, seen)
		t.Cleanup(x.end)
		r.script(x)
	})
}

// choices decide who goes next.
type choices struct {
	source string // for the report
	wanted []int
	random *rand.Rand // after wanted; nil takes the first
	steps  []choice
}

type choice struct{ took, of int }

func (c *choices) next(of int) int {
	took := 0
	switch i := len(c.steps); {
	case of == 1:
		return 0
	case i < len(c.wanted):
		took = min(c.wanted[i], of-1)
	case c.random != nil:
		took = c.random.IntN(of)
	}
	c.steps = append(c.steps, choice{took, of})
	return took
}

func (c *choices) taken() string {
	var s []string
	for _, step := range c.steps {
		s = append(s, strconv.Itoa(step.took))
	}
	return "0" + strings.Join(append([]string{""}, s...), ".")
}

func inOrder(wanted []int) *choices { return &choices{source: "every order", wanted: wanted} }

// following are the choices that come after c in the enumeration of all; nil after the last.
func (c *choices) following() *choices {
	for i := len(c.steps) - 1; i >= 0; i-- {
		if c.steps[i].took+1 < c.steps[i].of {
			var wanted []int
			for _, step := range c.steps[:i] {
				wanted = append(wanted, step.took)
			}
			return inOrder(append(wanted, c.steps[i].took+1))
		}
	}
	return nil
}

func randomly(race string, seed uint64) *choices {
	h := fnv.New64a()
	_, _ = h.Write([]byte(race))
	return &choices{source: fmt.Sprintf("seed %d", seed), random: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

func replay(schedule string) *choices {
	c := &choices{source: "replay"}
	for _, s := range strings.Split(schedule, ".")[1:] {
		took, _ := strconv.Atoi(s)
		c.wanted = append(c.wanted, took)
	}
	return c
}

// An explorer is a world whose goroutines go one at a time.
type explorer struct {
	*world
	race    *race
	choices *choices
	seen    map[string]int
	record  *recorder

	mu      sync.Mutex
	holding bool
	waiting []*waiter // by name, and then by arrival
	trace   []string
	actors  []*actor
	wires   map[*stream.Stream]*scriptSink
	posts   []*exchange
}

// A waiter is a goroutine that waits for its turn, or a step of the clock.
type waiter struct {
	name  string
	turn  chan struct{}
	ready func() bool // nil is always
	do    func()      // what the scheduler itself does, instead of letting somebody go
}

type actor struct {
	name  string
	steps []step
	done  bool
}

type step struct {
	ready func() bool
	do    func()
	clock bool
}

func newExplorer(t *testing.T, r *race, c *choices, seen map[string]int) *explorer {
	x := &explorer{race: r, choices: c, seen: seen, wires: map[*stream.Stream]*scriptSink{}}
	x.world = newWorld(t, r.limits)
	x.record = &recorder{requests: map[*Request]*record{}}
	x.core = New(Config{Dispatcher: x.world, Observer: x.record, Logger: slog.New(x.log), Limits: r.limits})
	points := r.points
	if points == nil {
		points = allPoints
	}
	x.core.hooks = func(p point, r *Request) {
		if slices.Contains(points, p) {
			x.park(place(p, r))
		}
	}
	return x
}

// place names a goroutine at a yield point: by the point, the request, and the
// function of the core that it has come through.
func place(p point, r *Request) string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	by := ""
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		_, name, core := strings.Cut(f.Function, "/internal/session.(*")
		if core && !strings.HasSuffix(f.File, "_test.go") && !strings.HasPrefix(name, "tasks)") {
			by = strings.TrimSuffix(strings.Replace(name, ").", ".", 1), "-fm")
		}
	}
	if r == nil {
		return fmt.Sprintf("%s (%s)", pointNames[p], by)
	}
	return fmt.Sprintf("%s of %s %s (%s)", pointNames[p], r.Route.Series.Target, r.ID, by)
}

// park stops the goroutine until the schedule lets it go.
func (x *explorer) park(name string) { x.wait(&waiter{name: name}) }

func (x *explorer) wait(w *waiter) {
	x.mu.Lock()
	if !x.holding {
		x.mu.Unlock()
		return
	}
	w.turn = make(chan struct{})
	i := sort.Search(len(x.waiting), func(i int) bool { return x.waiting[i].name > w.name })
	x.waiting = slices.Insert(x.waiting, i, w)
	x.mu.Unlock()
	<-w.turn
}

// actor adds somebody who takes these steps, one after the other.
func (x *explorer) actor(name string, steps ...func()) {
	a := &actor{name: name}
	for _, do := range steps {
		a.steps = append(a.steps, step{do: do})
	}
	x.actors = append(x.actors, a)
}

// actorWhen adds somebody who takes one step as soon as a condition holds, or never.
func (x *explorer) actorWhen(name string, ready func() bool, do func()) {
	x.actors = append(x.actors, &actor{name: name, steps: []step{{ready: ready, do: do}}})
}

// clock adds somebody who lets time pass.
func (x *explorer) clock(d time.Duration) {
	x.actors = append(x.actors, &actor{name: d.String() + " pass", steps: []step{
		{do: func() { time.Sleep(d) }, clock: true}}})
}

func (x *explorer) play(a *actor) {
	for i, s := range a.steps {
		w := &waiter{name: a.name, ready: s.ready}
		if len(a.steps) > 1 {
			w.name = fmt.Sprintf("%s %d", a.name, i+1)
		}
		if s.clock {
			w.do = s.do
		}
		x.wait(w)
		if s.ready != nil && !s.ready() {
			break // the schedule is over, and the condition has never held
		}
		if !s.clock {
			s.do()
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	a.done = true
}

// Time for all graces of a teardown, in steps. It passes only when nobody else can go.
const (
	linger     = 3 * time.Second
	lingerStep = 250 * time.Millisecond
)

// run plays one schedule to its end and checks what holds after any.
func (x *explorer) run() {
	x.t.Helper()
	x.mu.Lock()
	x.holding = true
	x.mu.Unlock()
	for _, a := range x.actors {
		go x.play(a)
	}
	for waited := time.Duration(0); waited < linger; {
		x.settle()
		if x.step() {
			waited = 0
			continue
		}
		time.Sleep(lingerStep)
		waited += lingerStep
	}
	x.release()
	x.settle()
	x.verify()
}

// step lets one waiter go; false if nobody waits.
func (x *explorer) step() bool {
	x.mu.Lock()
	var ready []int
	for i, w := range x.waiting {
		if w.ready == nil || w.ready() {
			ready = append(ready, i)
		}
	}
	if len(ready) == 0 {
		x.mu.Unlock()
		return false
	}
	i := ready[x.choices.next(len(ready))]
	w := x.waiting[i]
	x.waiting = slices.Delete(x.waiting, i, i+1)
	x.trace = append(x.trace, w.name)
	x.mu.Unlock()
	if w.do != nil {
		w.do()
	}
	close(w.turn)
	return true
}

// release lets everybody go, now and from now on.
func (x *explorer) release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.holding = false
	for _, w := range x.waiting {
		close(w.turn)
	}
	x.waiting = nil
}

// saw notes how a schedule has ended.
func (x *explorer) saw(ending string) { x.seen[ending]++ }

// end drains the world, also after a failure.
func (x *explorer) end() {
	x.release()
	for _, p := range x.posts {
		if p.stream.Standing() {
			p.stream.Fail(streamOver)
		}
	}
	x.world.end()
}
