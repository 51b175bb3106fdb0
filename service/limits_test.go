package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/server"
)

// TestLimitsAreSettings holds that every limit of the server can be set, that what
// is not set keeps the value of the program, and that zero counts as not set.
func TestLimitsAreSettings(t *testing.T) {
	for _, b := range limits.All() {
		c := DefaultConfig()
		for _, s := range limitSettings() {
			v := s.value(&c)
			require.NoError(t, v.Set(v.String()), s.name)
		}
		c.Limits = server.Limits{}
		l := (*limits.Limits)(&c.Limits)
		if p := b.Int(l); p != nil {
			*p = 7
		} else {
			*b.Duration(l) = 7
		}
		programs := limits.Limits{RequestTimeout: time.Hour, MaxDepth: 9}
		got := limits.Limits(c.limits(server.Limits(programs)))
		if p := b.Int(&got); p != nil {
			require.Equal(t, 7, *p, b.Name)
			*p = *b.Int(&programs)
		} else {
			require.Equal(t, time.Duration(7), *b.Duration(&got), b.Name)
			*b.Duration(&got) = *b.Duration(&programs)
		}
		require.Equal(t, programs, got, "only %s changes", b.Name)
	}
}
