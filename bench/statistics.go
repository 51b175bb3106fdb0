package main

import (
	"cmp"
	"slices"
	"time"
)

// A sample is the measurement of one slice. Its values are per request unless noted.
type sample struct {
	requests int           // in all
	took     time.Duration // of the whole slice
	cpu      time.Duration
	mallocs  float64
	bytes    float64
	answer   int // bytes of the last answer
	p50, p99 time.Duration
	half     half // zero if the scenario does not ask for it
}

// A half has the durations of answers at half of the load of the sample.
type half struct {
	rate     float64 // of due requests per second
	requests int
	p50, p99 time.Duration // from when a request was due
	late     time.Duration // the 99th percentile of how late the client itself was
}

func (s sample) rate() float64 { return float64(s.requests) / s.took.Seconds() }

// A spread has the median of several rounds, the smallest and the largest value.
type spread struct{ median, low, high float64 }

// spreadOf returns the spread of one value of each sample. There must be at least one sample.
func spreadOf(samples []sample, value func(sample) float64) spread {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	return spreadOfValues(values)
}

func spreadOfValues(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

// ratios returns the spread of the ratios of a time of two servers, each within one round.
func ratios(samples, base []sample, of func(sample) time.Duration) spread {
	values := make([]float64, len(samples))
	for i := range samples {
		values[i] = float64(of(samples[i])) / float64(of(base[i]))
	}
	return spreadOfValues(values)
}

func cpuTimeOf(s sample) time.Duration { return s.cpu }

// quantile returns the value of a sorted list below or at which a share q of it lies.
func quantile[T cmp.Ordered](sorted []T, q float64) T {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
