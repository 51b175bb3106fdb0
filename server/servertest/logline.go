package servertest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"
)

// A LogLine is one record of a log.
type LogLine struct {
	Time    time.Time
	Level   slog.Level
	Message string
	attrs   []string // keys and values; those in a group have its name before them
}

// Attr returns the value of an attribute as text, "" if the line does not have it. The
// key of an attribute in a group begins with the group's name and a dot.
func (l *LogLine) Attr(key string) string {
	value := ""
	for i := 0; i+1 < len(l.attrs); i += 2 {
		if l.attrs[i] == key {
			value = l.attrs[i+1] // the last one counts
		}
	}
	return value
}

// String describes the line.
func (l *LogLine) String() string {
	return fmt.Sprintf("%s %q %s", l.Level, l.Message, joined(l.attrs))
}

// Log returns the first log line with a message, such as "handler.error", and with these
// attributes, given as keys and values; "" stands for an attribute that is absent. It waits
// for such a line, and ends the test if there is none.
func (r *Recorder) Log(tb testing.TB, message string, attrs ...string) *LogLine {
	tb.Helper()
	pairs(tb, attrs)
	found, ok := first(r.lines.all, func(l *LogLine) bool { return l.Message == message && hasAttrs(l, attrs) })
	if !ok {
		tb.Fatalf("servertest: no log line %q%s; %s", message, having(attrs), listed("lines", r.lines.all()))
	}
	return found
}

// Logs returns the log lines so far that have at least a level, in their order. It does not
// wait. A test that must log no warning closes its client, which waits until the server has
// let go of the connection, and looks at Logs(slog.LevelWarn) then.
func (r *Recorder) Logs(level slog.Level) []*LogLine {
	return slices.DeleteFunc(r.lines.all(), func(l *LogLine) bool { return l.Level < level })
}

// A lineLog keeps log lines.
type lineLog struct {
	mu    sync.Mutex
	lines []*LogLine
}

func (l *lineLog) add(line *LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// all returns the lines so far; the caller owns the slice.
func (l *lineLog) all() []*LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// A lineHandler writes into a lineLog.
type lineHandler struct {
	log    *lineLog
	prefix string   // the groups, each with a dot
	attrs  []string // of WithAttrs
}

// Enabled implements [slog.Handler].
func (h lineHandler) Enabled(context.Context, slog.Level) bool { return true }

// WithGroup implements [slog.Handler].
func (h lineHandler) WithGroup(name string) slog.Handler {
	if name != "" {
		h.prefix += name + "."
	}
	return h
}

// WithAttrs implements [slog.Handler].
func (h lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = slices.Clip(h.attrs)
	for _, a := range attrs {
		h.attrs = appendAttr(h.attrs, h.prefix, a)
	}
	return h
}

// Handle implements [slog.Handler].
func (h lineHandler) Handle(_ context.Context, rec slog.Record) error {
	line := &LogLine{Time: rec.Time, Level: rec.Level, Message: rec.Message, attrs: slices.Clone(h.attrs)}
	rec.Attrs(func(a slog.Attr) bool {
		line.attrs = appendAttr(line.attrs, h.prefix, a)
		return true
	})
	h.log.add(line)
	return nil
}

// appendAttr appends an attribute, and for a group all that are in it.
func appendAttr(list []string, prefix string, a slog.Attr) []string {
	value := a.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		return append(list, prefix+a.Key, value.String())
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, member := range value.Group() {
		list = appendAttr(list, prefix, member)
	}
	return list
}
