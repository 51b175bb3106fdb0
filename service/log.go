package service

import (
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// newLogHandler returns the log handler of the configuration, with the given level.
func newLogHandler(w io.Writer, cfg *Config, level slog.Leveler) slog.Handler {
	opts := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		opts.ReplaceAttr = withUnit
		return slog.NewJSONHandler(logline.JSON(w), opts)
	}
	return slog.NewTextHandler(logline.Text(w), opts)
}

// withUnit replaces a duration by milliseconds and adds the unit to its key. JSON would have
// nanoseconds without a unit. The text format prints durations with a unit.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_ms", float64(a.Value.Duration())/float64(time.Millisecond))
	}
	return a
}

// setDefaultLogger makes h the default handler of slog and of package log. restore undoes that.
func setDefaultLogger(h slog.Handler) (restore func()) {
	logger, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(h))
	return func() {
		slog.SetDefault(logger)
		log.SetOutput(out)
		log.SetFlags(flags)
	}
}
