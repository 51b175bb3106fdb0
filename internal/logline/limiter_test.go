package logline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A line is allowed once a second, with the number of those that were not.
func TestLimiterAllowsOneLineASecond(t *testing.T) {
	var l Limiter
	at := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		after    time.Duration
		ok       bool
		silenced int
	}{
		{0, true, 0}, {time.Second - 1, false, 0}, {0, false, 0}, {1, true, 2}, {time.Second, true, 0},
	} {
		at = at.Add(tt.after)
		ok, silenced := l.Allow("record", "reason", at)
		require.Equal(t, tt.ok, ok)
		require.Equal(t, tt.silenced, silenced)
	}
	for i, want := range []bool{true, true, false} {
		ok, _ := l.AllowSome(2, "some", "reason", at)
		require.Equal(t, want, ok, i)
	}
	ok, silenced := l.AllowSome(2, "some", "reason", at.Add(time.Second))
	require.True(t, ok)
	require.Equal(t, 1, silenced)
	ok, _ = l.Allow("record", "another reason", at)
	require.True(t, ok)
	ok, _ = l.Allow("another record", "reason", at)
	require.True(t, ok)
}
