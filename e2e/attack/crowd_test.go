package attack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// inTime is how long a well-behaved caller waits for its answer.
const inTime = time.Second

// A crowd are ten well-behaved callers with addresses of their own.
type crowd struct {
	callers []*caller
	every   time.Duration // between two calls of one caller
}

func newCrowd(t *testing.T, s *target, rate float64) *crowd {
	c := &crowd{every: time.Duration(10 / rate * float64(time.Second))}
	for i := range 10 {
		c.callers = append(c.callers, s.caller(t, fmt.Sprintf("127.0.0.%d", 10+i), ""))
	}
	return c
}

// A served says how a crowd was served.
type served struct {
	asked, answered, inTime, wrong int
	statuses                       map[int]int
	took                           []time.Duration
}

// ask lets each caller ask at its rate for a time, whether or not its earlier calls have been
// answered. Latency counts from the moment at which the call was due.
func (c *crowd) ask(d time.Duration) *served {
	now := make(chan struct{})
	close(now)
	return c.askUntil(d, now)
}

// askUntil is ask for a time, and then until a channel is closed.
func (c *crowd) askUntil(d time.Duration, ended <-chan struct{}) *served {
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
	total := &served{statuses: map[int]int{}}
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for i, one := range c.callers {
		all.Go(func() {
			for due := began.Add(c.every * time.Duration(i) / 10); goOn(due, began); due = due.Add(c.every) {
				time.Sleep(time.Until(due))
				all.Go(func() {
					status, right := one.echo()
					took := time.Since(due)
					mu.Lock()
					defer mu.Unlock()
					total.asked++
					total.statuses[status]++
					switch {
					case right:
						total.answered++
						total.took = append(total.took, took)
						if took <= inTime {
							total.inTime++
						}
					case status == http.StatusOK:
						total.wrong++
					}
				})
			}
		})
	}
	all.Wait()
	slices.Sort(total.took)
	return total
}

// echo calls echo once. The status is 0 if there was no answer.
func (c *caller) echo() (status int, right bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	what := call{tool: "echo", arguments: `{"text":"` + c.name + `hello"}`}
	r, err := c.send(ctx, http.MethodPost, what.header(), what.frame(1, true))
	if err != nil {
		return 0, false
	}
	return r.status, r.text() == c.name+"hello"
}

func (s *served) p99() time.Duration { return s.percentile(99) }

func (s *served) percentile(p int) time.Duration {
	if len(s.took) == 0 {
		return time.Hour
	}
	return s.took[min(len(s.took)-1, len(s.took)*p/100)]
}

func (s *served) String() string {
	return fmt.Sprintf("asked %d, answered %d, in time %d, p50 %v, p99 %v, statuses %v", s.asked, s.answered, s.inTime,
		s.percentile(50).Round(time.Microsecond), s.p99().Round(time.Microsecond), s.statuses)
}
