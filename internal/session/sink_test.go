package session

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A scriptSink is the wire: it records frames and fails or blocks as told.
type scriptSink struct {
	mu       sync.Mutex
	script   []verdictFunc // one for each write, in order; then everything succeeds
	flushes  []verdictFunc // one for each flush
	pending  []wireEvent
	sent     []wireEvent
	deadline time.Time
	moved    chan struct{} // closed when the deadline changes
	events   bool          // it is an event stream that cannot be resumed

	peer context.Context // done when the peer has left; see Gone
	left context.CancelFunc
}

// Gone implements [Watcher].
func (k *scriptSink) Gone() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.peer == nil {
		k.peer, k.left = context.WithCancel(context.Background())
	}
	return k.peer
}

// leave is the peer hanging up.
func (k *scriptSink) leave() {
	k.Gone()
	k.left()
}

// A wireEvent is one message on the wire.
type wireEvent struct {
	id    string // of the event, or ""
	frame string // "" for a mark
	retry time.Duration
}

// A verdictFunc says what becomes of a write. It may block.
type verdictFunc func(k *scriptSink) error

// failWith fails a write with a class.
func failWith(reason mcp.DropReason, err error) verdictFunc {
	return func(*scriptSink) error { return &stream.WriteError{Reason: reason, Err: err} }
}

// blockUntil blocks a write until the channel is closed, or the write deadline passes.
func blockUntil(c <-chan struct{}) verdictFunc {
	return func(k *scriptSink) error {
		for {
			k.mu.Lock()
			if k.moved == nil {
				k.moved = make(chan struct{})
			}
			deadline, moved := k.deadline, k.moved
			k.mu.Unlock()
			patience := time.Until(deadline)
			if deadline.IsZero() { // there is none
				patience = 24 * time.Hour
			}
			timer := time.NewTimer(patience)
			select {
			case <-c:
				timer.Stop()
				return nil
			case <-timer.C:
				return &stream.WriteError{Reason: mcp.DropWriteTimeout, Err: io.ErrNoProgress}
			case <-moved:
				timer.Stop()
			}
		}
	}
}

func (k *scriptSink) on(writes ...verdictFunc) *scriptSink {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.script = append(k.script, writes...)
	return k
}

func (k *scriptSink) onFlush(flushes ...verdictFunc) *scriptSink {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flushes = append(k.flushes, flushes...)
	return k
}

func (k *scriptSink) Write(m *stream.Message) error {
	if err := k.verdict(&k.script); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending = append(k.pending, wireEvent{m.EventID, string(m.Frame), m.Retry})
	k.events = k.events || m.EventID != ""
	return nil
}

func (k *scriptSink) Flush() error {
	if err := k.verdict(&k.flushes); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sent = append(k.sent, k.pending...)
	k.pending = nil
	return nil
}

func (k *scriptSink) verdict(script *[]verdictFunc) error {
	k.mu.Lock()
	if len(*script) == 0 {
		k.mu.Unlock()
		return nil
	}
	f := (*script)[0]
	*script = (*script)[1:]
	k.mu.Unlock()
	return f(k)
}

func (k *scriptSink) SetWriteDeadline(t time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deadline = t
	if k.moved != nil {
		close(k.moved)
	}
	k.moved = make(chan struct{})
}

func (k *scriptSink) EventStream() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.events
}

// becomeEvents makes the sink an event stream with this write.
func becomeEvents(k *scriptSink) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = true
	return nil
}

func (k *scriptSink) frames() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var frames []string
	for _, e := range k.sent {
		if e.frame != "" {
			frames = append(frames, e.frame)
		}
	}
	return frames
}
