package servertest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A LogLine is one record of a log.
type LogLine struct {
	Time    time.Time
	Level   slog.Level
	Message string
	attrs   []string // keys and values; the key of an attribute in a group begins with the group's name
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

// A lineHandler adds records to a lineLog.
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

// appendAttr appends an attribute, or all attributes of a group.
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
