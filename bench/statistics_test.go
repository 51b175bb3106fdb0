package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   spread
	}{
		{[]float64{7}, spread{7, 7, 7}},
		{[]float64{4, 1}, spread{2.5, 1, 4}},
		{[]float64{9, 1, 2}, spread{2, 1, 9}},
		{[]float64{8, 2, 4, 100}, spread{6, 2, 100}},
	} {
		require.Equal(t, tt.want, spreadOfValues(tt.values), "%v", tt.values)
	}
}

// In the second round the machine is four times as slow, for both servers.
func TestRatiosAreTakenWithinARound(t *testing.T) {
	base := []sample{{cpu: 10}, {cpu: 40}, {cpu: 10}}
	require.Equal(t, spread{3, 2, 4}, ratios([]sample{{cpu: 20}, {cpu: 120}, {cpu: 40}}, base, cpuTimeOf))
	require.Equal(t, spread{1, 1, 1}, ratios(base, base, cpuTimeOf))
}

func TestQuantile(t *testing.T) {
	var hundred []int
	for i := range 100 {
		hundred = append(hundred, i)
	}
	for _, tt := range []struct {
		sorted []int
		q      float64
		want   int
	}{
		{[]int{5}, 0.5, 5}, {[]int{5}, 0.99, 5}, {[]int{1, 2, 3}, 0.5, 2}, {hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 99},
	} {
		require.Equal(t, tt.want, quantile(tt.sorted, tt.q), "%v of %v", tt.q, tt.sorted)
	}
}

func TestRate(t *testing.T) {
	require.InDelta(t, 500, sample{requests: 1000, took: 2 * time.Second}.rate(), 1e-9)
}
