package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 77 77 0 -1 4194560 4459 129677 0 7 123 45 80 44 20 0 1 0 3044334"
	for _, tt := range []struct {
		stat string
		want time.Duration
		bad  bool
	}{
		{stat: "77 (bench)" + rest, want: 1680 * time.Millisecond},
		{stat: "77 (a) S 9 (b c)" + rest, want: 1680 * time.Millisecond},
		{stat: "", bad: true},
		{stat: "77 (bench) S 1 77", bad: true},
		{stat: "77 (bench) S 1 77 77 0 -1 4194560 4459 129677 0 7 x y 80", bad: true},
	} {
		got, err := parseStat([]byte(tt.stat))
		if tt.bad {
			require.Error(t, err, tt.stat)
			continue
		}
		require.NoError(t, err, tt.stat)
		require.Equal(t, tt.want, got, tt.stat)
	}
}

// Both ways of reading the CPU time of a process agree: one value lies between two readings of the
// other, but for a few ticks.
func TestBothCPUTimesAgree(t *testing.T) {
	pid := os.Getpid()
	before, err := cpuTime(pid)
	require.NoError(t, err)
	var now time.Duration
	for now < before+5*tick {
		now, err = cpuTime(pid)
		require.NoError(t, err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	ticks, err := parseStat(stat)
	require.NoError(t, err)
	after, err := cpuTime(pid)
	require.NoError(t, err)
	require.GreaterOrEqual(t, ticks, now-3*tick)
	require.LessOrEqual(t, ticks, after+3*tick)

	_, err = cpuTime(1<<22 + 1) // more than there can be
	require.Error(t, err)
}
