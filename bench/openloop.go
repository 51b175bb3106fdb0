package main

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// open sends requests at times that do not depend on the answers, at a rate per second for the
// time d. It measures each answer from the time at which its request was due, so that a stall
// of the server counts for all requests that had to wait. The times are random like those of
// independent callers, and the same for every server with the same rate.
func (l *httpLoad) open(rate float64, d time.Duration) (h half, err error) {
	times := schedule(rate, d)
	due := make(chan time.Time, len(times)) // large enough for all, so that pace never blocks
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	begin := time.Now()
	for _, c := range l.callers {
		c.took = c.took[:0]
		if err := c.setDeadline(begin.Add(d + patience)); err != nil {
			return h, err
		}
	}
	for _, c := range l.callers {
		all.Go(func() {
			for at := range due {
				if failed.Load() != nil {
					return
				}
				if _, err := l.askOnce(c, at); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	late := pace(begin, times, due)
	close(due)
	all.Wait()
	took, err := l.took(&failed)
	if err != nil {
		return h, err
	}
	slices.Sort(took)
	slices.Sort(late)
	return half{rate, len(took), quantile(took, 0.50), quantile(took, 0.99), quantile(late, 0.99)}, nil
}

// schedule returns the times of a Poisson process, at least one.
func schedule(rate float64, d time.Duration) (times []time.Duration) {
	random := rand.New(rand.NewPCG(1, 2))
	for at := time.Duration(0); at < d || len(times) == 0; {
		at += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
		times = append(times, at)
	}
	return times
}

// pace sends the due time of each request when it has come, and returns how late it was.
func pace(begin time.Time, times []time.Duration, due chan<- time.Time) (late []time.Duration) {
	defer preciseSleep()()
	for _, at := range times {
		t := begin.Add(at)
		for d := time.Until(t); d > 0; d = time.Until(t) {
			sleep(d)
		}
		late = append(late, max(0, time.Since(t)))
		due <- t
	}
	return late
}
