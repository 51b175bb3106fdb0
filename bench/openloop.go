package main

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// open asks at times that do not depend on the answers, so many a second and for that
// long, and measures each answer from the time at which its request was due: a server
// that stalls pays for all who had to wait meanwhile, and not only for those whom it
// happened to serve. The times are random like those of callers who do not know of each
// other, and the same for every server with the same rate.
func (l *httpLoad) open(rate float64, d time.Duration) (h half, err error) {
	times := schedule(rate, d)
	due := make(chan time.Time, len(times)) // so that the clock never waits
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

// pace says when each request is due, and returns how late it has said so.
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
