package service

import (
	"io"
	"log"
	"log/slog"
)

// newLogHandler returns the handler that the configuration asks for.
func newLogHandler(w io.Writer, cfg *Config) slog.Handler {
	opts := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "json" {
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// setDefaultLogger makes h the default of slog and of package log, and returns
// how to undo that.
func setDefaultLogger(h slog.Handler) (restore func()) {
	logger, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(h))
	return func() {
		slog.SetDefault(logger)
		log.SetOutput(out)
		log.SetFlags(flags)
	}
}
