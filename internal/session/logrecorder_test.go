package session

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
)

// A logRecorder keeps the level and the key of each record.
type logRecorder struct {
	mu      sync.Mutex
	records []string
	details []string            // the same with the attributes
	during  func(record string) // see whenLogged
}

// whenLogged has f called with each record from now on.
func (l *logRecorder) whenLogged(f func(record string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.during = f
}

func (l *logRecorder) Enabled(context.Context, slog.Level) bool { return true }

func (l *logRecorder) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.during != nil {
		l.during(r.Message)
	}
	l.records = append(l.records, r.Level.String()+" "+r.Message)
	detail := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		detail += " " + a.String()
		return true
	})
	l.details = append(l.details, detail)
	return nil
}

// forget drops the records of what a test has provoked on purpose.
func (l *logRecorder) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records, l.details = nil, nil
}

func (l *logRecorder) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *logRecorder) WithGroup(string) slog.Handler { return l }

func (l *logRecorder) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records)
}

// loggedWith checks that a record was written that also has the given texts.
func (w *world) loggedWith(want string, texts ...string) {
	w.t.Helper()
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	require.True(w.t, slices.ContainsFunc(w.log.details, func(line string) bool {
		return strings.HasPrefix(line, want) && !slices.ContainsFunc(texts, func(text string) bool {
			return !strings.Contains(line, text)
		})
	}), "%s with %q in %q", want, texts, w.log.details)
}

// times counts the records of one kind.
func (w *world) times(record string) (n int) {
	for _, line := range w.log.lines() {
		if line == record {
			n++
		}
	}
	return n
}

// logged checks that a record was written.
func (w *world) logged(want string) {
	w.t.Helper()
	require.Contains(w.t, w.log.lines(), want)
}
