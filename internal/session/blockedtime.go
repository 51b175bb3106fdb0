package session

import (
	"sync"
	"time"
)

// blockedTime adds up how long a handler waits for its client. Several goroutines of a
// handler may wait at once; that time counts once.
type blockedTime struct {
	mu      sync.Mutex // guards the rest
	waiting int
	since   time.Time // when the first of the current waits began
	sum     time.Duration
}

// begin calls first if no other wait goes on.
func (b *blockedTime) begin(first func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting++; b.waiting == 1 {
		b.since = time.Now()
		first()
	}
}

// end calls last if no other wait goes on.
func (b *blockedTime) end(last func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting--; b.waiting == 0 {
		b.sum += time.Since(b.since)
		last()
	}
}

// total includes a wait that goes on.
func (b *blockedTime) total() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting > 0 {
		return b.sum + time.Since(b.since)
	}
	return b.sum
}
