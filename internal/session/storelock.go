package session

import "sync"

// A storeLock is a lock that is held while its holder waits for the store. Those who wait for a [sync.Mutex] stop the virtual time
// of a test, in which the holder then waits for ever. The zero value is unlocked.
type storeLock struct {
	mu       sync.Mutex // guards held
	released sync.Cond
	held     bool
}

// Lock waits until nobody holds the lock.
func (l *storeLock) Lock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released.L = &l.mu
	for l.held {
		l.released.Wait()
	}
	l.held = true
}

// Unlock releases the lock.
func (l *storeLock) Unlock() {
	l.mu.Lock()
	l.held = false
	l.mu.Unlock()
	l.released.Signal()
}
