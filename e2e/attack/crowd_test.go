package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	// inTime is how long a well-behaved caller waits for its answer.
	inTime = time.Second
	// timeSlice is for how long Go's scheduler lets a goroutine run while others wait. Below that a
	// latency says how the schedulers take turns, and nothing about the server.
	timeSlice = 10 * time.Millisecond
	// maxNoise is by how much the 99th percentile of a calm server may exceed its median. A machine that
	// delays it by more hides what an attack does.
	maxNoise = 10 * timeSlice
	// maxDelay is how many times the latency of a calm server that of an attacked one may be.
	maxDelay = 3
)

// A request makes a call that is answered with a text.
type request func(text string) call

// echo is a call that is answered at once.
func echo(text string) call { return call{tool: "echo", arguments: `{"text":` + quote(text) + `}`} }

// work is a call of 200 ms, which needs a slot and hardly any CPU time.
func work(text string) call {
	return call{tool: "sleep", arguments: `{"ms":200,"text":` + quote(text) + `}`}
}

// requests are the calls that a crowd can make.
var requests = map[string]request{"echo": echo, "work": work}

// A crowd are ten well-behaved callers with addresses of their own, and one that asks once a second.
type crowd struct {
	callers []*caller
	quiet   *caller
	what    request
	every   time.Duration // between two calls of one caller
}

const (
	crowdSize  = 10
	quietEvery = time.Second
)

// crowdAddress is the address of a well-behaved caller.
func crowdAddress(i int) string { return fmt.Sprintf("127.0.0.%d", 10+i%crowdSize) }

func newCrowd(s *target, what request, rate float64) *crowd {
	c := &crowd{what: what, every: time.Duration(crowdSize / rate * float64(time.Second)), quiet: s.client("127.0.0.9", "")}
	for i := range crowdSize {
		c.callers = append(c.callers, s.client(crowdAddress(i), ""))
	}
	return c
}

// A served says how a crowd was served.
type served struct {
	Asked, Answered, InTime, Wrong int
	Statuses                       map[int]int
	Took                           []time.Duration // of each call; never is the time of one without an answer
	Quiet                          []time.Duration // as Took, of the caller that asks once a second; it is counted nowhere else
}

// never is the latency of a call that was not answered.
const never = time.Hour

// ask lets each caller ask at its rate for a time, and then until a channel is closed. Callers do not wait for the answers of their earlier calls. Latency counts from the moment at
// which the call was due.
func (c *crowd) ask(d time.Duration, ended <-chan struct{}) *served {
	goOn := func(due, began time.Time) bool {
		if due.Before(began.Add(d)) {
			return true
		}
		select {
		case <-ended:
			return false
		default:
			return true
		}
	}
	total := &served{Statuses: map[int]int{}}
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	again := func(one *caller, name string, first time.Time, every time.Duration, add func(r response, text string, took time.Duration)) {
		for n := 0; ; n++ {
			due := first.Add(every * time.Duration(n))
			if !goOn(due, began) {
				return
			}
			time.Sleep(time.Until(due))
			all.Go(func() {
				text := fmt.Sprint("call ", n, " of ", name)
				r := one.try(c.what(text))
				took := time.Since(due)
				mu.Lock()
				defer mu.Unlock()
				add(r, text, took)
			})
		}
	}
	for i, one := range c.callers {
		all.Go(func() {
			again(one, fmt.Sprint("caller ", i), began.Add(c.every*time.Duration(i)/crowdSize), c.every, total.add)
		})
	}
	all.Go(func() { again(c.quiet, "the quiet caller", began, quietEvery, total.addQuiet) })
	all.Wait()
	slices.Sort(total.Took)
	slices.Sort(total.Quiet)
	return total
}

// try calls once. The status is 0 if there was no answer.
func (c *caller) try(what call) response {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := c.send(ctx, http.MethodPost, what.header(), what.frame(1, true))
	if err != nil {
		return response{}
	}
	return r
}

// add counts a call that should have been answered with a text.
func (s *served) add(r response, text string, took time.Duration) {
	s.Asked++
	s.Statuses[r.status]++
	switch {
	case r.text() == text:
		s.Answered++
		if took <= inTime {
			s.InTime++
		}
	case r.status == http.StatusOK:
		s.Wrong++
		fallthrough
	default:
		took = never
	}
	s.Took = append(s.Took, took)
}

// addQuiet adds a call of the one that asks once a second.
func (s *served) addQuiet(r response, text string, took time.Duration) {
	if r.text() != text {
		if r.status == http.StatusOK {
			s.Wrong++
		}
		took = never
	}
	s.Quiet = append(s.Quiet, took)
}

func (s *served) percentile(p int) time.Duration { return percentile(s.Took, p) }

// percentile returns a percentile of times that are sorted, and never if there are none.
func percentile(took []time.Duration, p int) time.Duration {
	if len(took) == 0 {
		return never
	}
	return took[min(len(took)-1, len(took)*p/100)]
}

func (s *served) String() string {
	return fmt.Sprintf("asked %d, answered %d, in time %d, p50 %v, p99 %v, quiet p90 %v, statuses %v", s.Asked, s.Answered, s.InTime,
		s.percentile(50).Round(time.Microsecond), s.percentile(99).Round(time.Microsecond), percentile(s.Quiet, 90).Round(time.Microsecond), s.Statuses)
}

// Two crowds ask two servers on one machine for the same at the same time: one is attacked, and one
// is calm. Whatever else runs on the machine, the attackers among it, delays both. Each crowd is a
// process, so that neither waits for the calls of the other.
type crowds struct {
	attacked, calm *target
	what           string
	rate           float64
}

// compared is how two crowds were served at the same time.
type compared struct{ attacked, calm *served }

// ask lets both crowds ask for a time, and then until a channel is closed, unless it is nil.
func (c crowds) ask(t *testing.T, d time.Duration, ended <-chan struct{}) (got compared) {
	t.Helper()
	var all []*running
	for _, s := range []*target{c.attacked, c.calm} {
		all = append(all, s.army(t, 0, "crowd", d, c.rate, "-crowd-calls", c.what))
	}
	if ended != nil {
		<-ended
	}
	for _, r := range all {
		r.stdin.Close()
	}
	got = compared{new(served), new(served)}
	all[0].result(t, got.attacked)
	all[1].result(t, got.calm)
	return got
}

// runCrowd asks for a time, and then until stdin is closed, and prints how it was served.
func runCrowd() int {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	c := newCrowd(&target{host: *floodHost, mcp: "http://" + *floodHost + "/mcp"}, requests[*crowdCalls], *floodRate)
	if json.NewEncoder(os.Stdout).Encode(c.ask(*floodTime, ended)) != nil {
		return 1
	}
	return 0
}

func (c compared) String() string {
	return fmt.Sprintf("%v; %.1f times p99 of the calm server: %v", c.attacked,
		float64(c.attacked.percentile(99))/float64(c.floor()), c.calm)
}

// floor is the 99th percentile of the calm server, or a time slice if that is longer.
func (c compared) floor() time.Duration { return max(c.calm.percentile(99), timeSlice) }

// right checks that no answer was wrong, and that there were answers.
func (c compared) right(t *testing.T, when string) {
	t.Helper()
	if wrong := c.attacked.Wrong + c.calm.Wrong; wrong > 0 {
		t.Errorf("%s %d answers were wrong", when, wrong)
	}
	if c.attacked.Answered == 0 {
		t.Errorf("%s nobody was served: %v", when, c)
	}
}

// inTime checks that nine of ten calls were answered in time, and that the 99th percentile is at most
// three times that of the calm server. If the calm server was served badly, too, nothing is known, which
// is a failure.
func (c compared) inTime(t *testing.T, when string) {
	t.Helper()
	if c.calm.InTime < c.calm.Asked*9/10 || c.calm.percentile(99)-c.calm.percentile(50) > maxNoise {
		t.Errorf("%s the machine was too busy to tell: even a calm server was late: %v", when, c.calm)
	}
	if c.attacked.InTime < c.attacked.Asked*9/10 {
		t.Errorf("%s %d of %d calls were answered in time", when, c.attacked.InTime, c.attacked.Asked)
	}
	if p99 := c.attacked.percentile(99); p99 > maxDelay*c.floor() {
		t.Errorf("%s the 99th percentile is %v, and %v at a calm server", when, p99, c.calm.percentile(99))
	}
}

// quietInTime checks that nine of ten calls of the caller that asks once a second take at most three times the 99th
// percentile of the calm server.
func (c compared) quietInTime(t *testing.T, when string) {
	t.Helper()
	if p90 := percentile(c.attacked.Quiet, 90); p90 > maxDelay*c.floor() {
		t.Errorf("%s the 90th percentile of a caller that asks once a second is %v, and the 99th percentile of a calm server %v", when, p90, c.calm.percentile(99))
	}
}
