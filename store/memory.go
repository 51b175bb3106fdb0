package store

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"
)

// A Memory has [Values], [Signals], an [EventLog] and [Buckets] for servers of one process, such as in tests. It is not bounded.
// The zero value is ready for use.
type Memory struct {
	// Now tells the time; nil is [time.Now].
	Now func() time.Time

	mu        sync.Mutex // guards the rest
	values    map[string]memoryValue
	listeners []*memoryListener
	logs      map[string]*memoryLog
	buckets   map[string]memoryBucket
}

type memoryValue struct {
	data []byte
	ends time.Time
}

type memoryListener struct {
	channels []string
	receive  func(channel string, message []byte)
	done     <-chan struct{} // closed when the listener's context ends

	mu      sync.Mutex // guards the rest
	waiting []signal
	busy    bool
}

type signal struct {
	channel string
	message []byte
}

// Store returns m as a [Store].
func (m *Memory) Store() Store { return Store{Values: m, Signals: m, Events: m, Buckets: m} }

// Get implements [Values].
func (m *Memory) Get(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data := m.get(key); data != nil {
		return bytes.Clone(data), nil
	}
	return nil, ErrNoValue
}

func (m *Memory) time() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// get returns a value that has not ended, or nil. The caller must hold m.mu.
func (m *Memory) get(key string) []byte {
	v, found := m.values[key]
	if found && !m.time().Before(v.ends) {
		delete(m.values, key)
		return nil
	}
	return v.data
}

// put stores a value. The caller must hold m.mu.
func (m *Memory) put(key string, value []byte, life time.Duration) {
	if life <= 0 {
		delete(m.values, key)
		return
	}
	if m.values == nil {
		m.values = map[string]memoryValue{}
	}
	m.values[key] = memoryValue{append([]byte{}, value...), m.time().Add(life)}
}

// Claim implements [Values].
func (m *Memory) Claim(_ context.Context, key string, value []byte, life time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.get(key) != nil {
		return false, nil
	}
	m.put(key, value, life)
	return true, nil
}

// Update implements [Values].
func (m *Memory) Update(_ context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, life, err := change(m.get(key))
	if err == nil {
		m.put(key, value, life)
	}
	return err
}

// Publish implements [Signals]. It returns [ErrNoReceiver] if nobody listens.
func (m *Memory) Publish(_ context.Context, channel string, message []byte) error {
	m.mu.Lock()
	listeners := slices.Clone(m.listeners)
	m.mu.Unlock()
	heard := false
	for _, l := range listeners {
		if slices.Contains(l.channels, channel) {
			heard = true
			l.post(signal{channel, bytes.Clone(message)})
		}
	}
	if !heard {
		return ErrNoReceiver
	}
	return nil
}

// Listen implements [Signals]. It loses nothing, and never calls missed.
func (m *Memory) Listen(ctx context.Context, channels []string, receive func(string, []byte), _ func()) error {
	l := &memoryListener{channels: slices.Clone(channels), receive: receive, done: ctx.Done()}
	m.mu.Lock()
	m.listeners = append(m.listeners, l)
	m.mu.Unlock()
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		m.listeners = slices.DeleteFunc(m.listeners, func(other *memoryListener) bool { return other == l })
		m.mu.Unlock()
	})
	return nil
}

// post hands a message over. One goroutine at a time calls receive.
func (l *memoryListener) post(s signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, s)
	if !l.busy {
		l.busy = true
		go l.deliver()
	}
}

func (l *memoryListener) deliver() {
	for {
		l.mu.Lock()
		if l.busy = len(l.waiting) > 0 && !l.over(); !l.busy {
			l.mu.Unlock()
			return
		}
		s := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.mu.Unlock()
		l.receive(s.channel, s.message)
	}
}

func (l *memoryListener) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}
