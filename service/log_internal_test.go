package service

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDurationsInTheLogHaveUnits: a number of nanoseconds tells a reader nothing.
func TestDurationsInTheLogHaveUnits(t *testing.T) {
	for format, want := range map[string]string{
		"text": `msg=x took=1.5s age=250µs call.ran=2ms n=3`,
		"json": `"msg":"x","took_ms":1500,"age_ms":0.25,"call":{"ran_ms":2},"n":3}`,
	} {
		t.Run(format, func(t *testing.T) {
			var log strings.Builder
			slog.New(newLogHandler(&log, &Config{LogFormat: format})).
				Info("x", "took", 1500*time.Millisecond, slog.Duration("age", 250*time.Microsecond), slog.Group("call", "ran", 2*time.Millisecond), "n", 3)
			require.Contains(t, log.String(), want)
		})
	}
}
