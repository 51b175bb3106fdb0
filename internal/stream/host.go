package stream

import (
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// A Host is what all streams of one core share. Its functions must not be nil, except for
// BeforeWrite, and are called from many goroutines.
type Host struct {
	Limits       limits.Limits
	Logger       *slog.Logger
	Output       *Output           // the budget of all queued messages; nil is none
	LimitReached func(name string) // counts a limit that was reached
	Go           func(f func())    // runs background work, for which the core's end waits
	// Written is told that n bytes were written and flushed over a connection, and how long
	// that took.
	Written func(conn any, n int, took time.Duration)
	// BeforeWrite lets tests hold the writer before it writes an answer. May be nil.
	BeforeWrite func(m *Message)

	wakes wakes
}

// beforeWrite calls BeforeWrite for an answer.
func (h *Host) beforeWrite(m *Message) {
	if h.BeforeWrite != nil && m.Kind == Answer {
		h.BeforeWrite(m)
	}
}
