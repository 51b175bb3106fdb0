package server_test

import (
	"context"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
)

// A sharedMemory is a store that a test can take away.
type sharedMemory struct {
	store.Memory
	mu    sync.Mutex // guards the rest
	away  error
	takes time.Duration // that an operation takes
	calls int
	slow  bool // what is published takes as long as it may
	deaf  error
	drops bool // what is published reaches nobody
	gaps  []func()
	// updated, if not nil, is called after the next update, before its caller hears of it.
	updated func()
	// appended, if not nil, is called after an event was stored. Its caller hears of the error.
	appended func() error
}

// drop has signals lost without an error. When that ends, listeners hear of the gap.
func (m *sharedMemory) drop(on bool) {
	m.mu.Lock()
	m.drops = on
	gaps := m.gaps
	m.mu.Unlock()
	for _, missed := range gaps {
		if !on {
			missed()
		}
	}
}

func (m *sharedMemory) Listen(ctx context.Context, channels []string, receive func(string, []byte), missed func()) error {
	m.mu.Lock()
	away := m.away
	if away == nil {
		m.gaps = append(m.gaps, missed)
	}
	m.mu.Unlock()
	if away != nil {
		return away
	}
	return m.Memory.Listen(ctx, channels, receive, missed)
}

func (m *sharedMemory) stall(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slow = on
}

// lose forgets all values.
func (m *sharedMemory) lose() { m.Now = func() time.Time { return time.Now().Add(1000 * time.Hour) } }

// asked counts an operation, and returns its error. It takes as long as the operation does.
func (m *sharedMemory) asked(ctx context.Context) error {
	m.mu.Lock()
	m.calls++
	err, takes := m.away, m.takes
	m.mu.Unlock()
	if err != nil || takes == 0 {
		return err
	}
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// delay lets each operation take so long.
func (m *sharedMemory) delay(takes time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.takes = takes
}

func (m *sharedMemory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = err
}

// used returns how often the store was asked since the last time.
func (m *sharedMemory) used() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.calls
	m.calls = 0
	return n
}

func (m *sharedMemory) Get(ctx context.Context, key string) ([]byte, error) {
	if err := m.asked(ctx); err != nil {
		return nil, err
	}
	return m.Memory.Get(ctx, key)
}

func (m *sharedMemory) Claim(ctx context.Context, key string, value []byte, life time.Duration) (bool, error) {
	if err := m.asked(ctx); err != nil {
		return false, err
	}
	return m.Memory.Claim(ctx, key, value, life)
}

func (m *sharedMemory) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	if err := m.asked(ctx); err != nil {
		return err
	}
	err := m.Memory.Update(ctx, key, change)
	m.mu.Lock()
	updated := m.updated
	m.updated = nil
	m.mu.Unlock()
	if updated != nil {
		updated()
	}
	return err
}

func (m *sharedMemory) Publish(ctx context.Context, channel string, message []byte) error {
	if err := m.asked(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	slow, deaf, drops := m.slow, m.deaf, m.drops
	m.mu.Unlock()
	if deaf != nil || drops {
		return deaf
	}
	if slow {
		<-ctx.Done()
		return ctx.Err()
	}
	return m.Memory.Publish(ctx, channel, message)
}

func (m *sharedMemory) Append(ctx context.Context, session string, e store.Event, b store.EventBounds) ([]store.EvictedEvent, error) {
	if err := m.asked(ctx); err != nil {
		return nil, err
	}
	out, err := m.Memory.Append(ctx, session, e, b)
	if err == nil && m.appended != nil {
		err = m.appended()
	}
	return out, err
}

func (m *sharedMemory) After(ctx context.Context, session, stream string, seq uint64) ([]store.Event, error) {
	if err := m.asked(ctx); err != nil {
		return nil, err
	}
	return m.Memory.After(ctx, session, stream, seq)
}

func (m *sharedMemory) Take(ctx context.Context, key string, b store.Bucket, spent, more int) (store.Tokens, error) {
	if err := m.asked(ctx); err != nil {
		return store.Tokens{}, err
	}
	return m.Memory.Take(ctx, key, b, spent, more)
}

func (m *sharedMemory) store() store.Store {
	return store.Store{Values: m, Signals: m, Events: m, Buckets: m}
}
