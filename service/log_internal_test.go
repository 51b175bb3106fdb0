package service

import (
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// TestDurationsInTheLogHaveUnits: a number of nanoseconds tells a reader nothing.
func TestDurationsInTheLogHaveUnits(t *testing.T) {
	for format, want := range map[string]string{
		"text": `msg=x took=1.5s age=250µs call.ran=2ms n=3`,
		"json": `"msg":"x","took_ms":1500,"age_ms":0.25,"call":{"ran_ms":2},"n":3}`,
	} {
		t.Run(format, func(t *testing.T) {
			var log strings.Builder
			slog.New(newLogHandler(&log, &Config{LogFormat: format}, slog.LevelInfo)).
				Info("x", "took", 1500*time.Millisecond, slog.Duration("age", 250*time.Microsecond), slog.Group("call", "ran", 2*time.Millisecond), "n", 3)
			require.Contains(t, log.String(), want)
		})
	}
}

// A text of a client cannot look like another one in the log: characters without a shape are escaped
// or replaced.
func TestCharactersWithoutAShapeAreNotInTheLog(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !logline.Deceptive(r) {
			continue
		}
		for _, format := range []string{"text", "json"} {
			var log strings.Builder
			slog.New(newLogHandler(&log, &Config{LogFormat: format}, slog.LevelInfo)).Info("a"+string(r)+"b", "key"+string(r), "c"+string(r)+"d")
			require.NotContains(t, log.String(), string(r), "%s %U", format, r)
		}
	}
}
