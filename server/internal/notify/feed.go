package notify

import "sync"

// A Feed is what one subscriber is told. While it is busy, because what was posted last
// is not written yet, notifications wait in its queues; so a subscriber that does
// not read costs the memory of what it has subscribed to, and one that reads again
// learns what is new.
type Feed struct {
	// post queues a notification without waiting. done, if it is not nil, is called once,
	// when the notification was written or dropped, by any goroutine.
	post func(n Notification, done func())
	next func() // f.send
	// limit is how many parts of resources wait, and how many events.
	limit int
	// overflow counts a notification that has found no room.
	overflow func()

	// Guarded by Hub.mu.
	topics    map[Topic]struct{}
	resources int // how many of the topics are resources
	left      bool

	mu      sync.Mutex // guards the rest
	changes latest
	events  every
	busy    bool
	closed  bool
}

// tell notes a notification for the subscriber, who has asked for the topic as, and sends it
// unless others do already.
func (f *Feed) tell(n Notification, as Topic) {
	if f.note(n, as) {
		f.send()
	}
}

// note remembers a notification until it can be told, and reports whether the caller must
// call send.
func (f *Feed) note(n Notification, as Topic) (send bool) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return false
	}
	var room bool
	if n.event() {
		room = f.events.add(n, f.limit)
	} else {
		room = f.changes.add(n, as, f.limit)
	}
	send = !f.busy
	f.busy = true
	f.mu.Unlock()
	if !room {
		f.overflow()
	}
	return send
}

// maxPosted is how many notifications of one feed are posted at the same time.
const maxPosted = 16

// send posts what waits. It is called when what was posted before was written, and
// by the caller that has made the feed busy. Neither queue can keep the other one waiting.
func (f *Feed) send() {
	var room [maxPosted]Notification
	f.mu.Lock()
	batch := f.events.take(room[:0], maxPosted/2)
	batch = f.changes.take(batch, maxPosted)
	batch = f.events.take(batch, maxPosted)
	f.busy = len(batch) > 0
	f.mu.Unlock()
	for i, n := range batch {
		if i == len(batch)-1 {
			f.post(n, f.next)
		} else {
			f.post(n, nil)
		}
	}
}

// close forgets what waits, for good.
func (f *Feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.changes, f.events = true, latest{}, nil
}
