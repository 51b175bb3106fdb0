package audit

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testKey = bytes.Repeat([]byte("k"), MinKeyBytes)

// A memory is a sink that keeps lines, and does what a test wants instead.
type memory struct {
	name string
	// instead replaces Write, if it is set.
	instead func(ctx context.Context, entries []Entry) (int, error)

	mu     sync.Mutex
	lines  []string
	last   string // what Last returns
	torn   string
	closed bool
}

func (m *memory) Name() string {
	if m.name == "" {
		return "memory"
	}
	return m.name
}

func (m *memory) Write(ctx context.Context, entries []Entry) (int, error) {
	if m.instead != nil {
		return m.instead(ctx, entries)
	}
	m.keep(entries)
	return len(entries), nil
}

func (m *memory) keep(entries []Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		m.lines = append(m.lines, string(e.Line))
	}
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errors.New("closed twice")
	}
	m.closed = true
	return nil
}

func (m *memory) Last() (line, torn []byte, err error) {
	if m.last != "" {
		line = []byte(m.last)
	}
	if m.torn != "" {
		torn = []byte(m.torn)
	}
	return line, torn, nil
}

// all returns the lines, without those of the marks of the log itself.
func (m *memory) all() (lines []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lines {
		if !strings.Contains(l, `"operation":"audit/open"`) && !strings.Contains(l, `"operation":"audit/close"`) {
			lines = append(lines, l)
		}
	}
	return lines
}

// hang is a Write that waits until it is told to give up.
func hang(ctx context.Context, _ []Entry) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func newLog(t *testing.T, c Config) *Log {
	t.Helper()
	l, err := New(c)
	require.NoError(t, err)
	return l
}

// called returns the record of a call.
func called(tool string) Record {
	return Record{Time: time.Now(), Operation: "tools/call", Target: tool, Decision: DecisionAllow, Stage: StageHandler, Outcome: OutcomeOK}
}
