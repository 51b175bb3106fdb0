package notify

import "sync"

// A Feed sends notifications to one subscriber. It is busy while the notifications that it has
// posted last are not written. Then others wait in its queues. So a subscriber that does not read
// costs a bounded amount of memory, and gets the latest changes when it reads again.
type Feed struct {
	room room
	// post queues a notification without waiting. done, if it is not nil, is called once,
	// when the notification was written or dropped, by any goroutine.
	post func(n Notification, done func())
	next func() // f.send
	// may decides whether the subscriber of the topic as is told of a change; nil is always.
	may func(n Notification, as Topic) bool
	// limit bounds the parts of resources, and the events, that wait.
	limit int
	// overflow counts a notification beyond the limit.
	overflow func()

	// Guarded by Hub.mu.
	topics topics
	left   bool

	mu      sync.Mutex // guards the rest
	changes latest
	events  every
	busy    bool
	closed  bool
}

// tell adds a notification for a subscriber of the topic as, if the subscriber may know of it, and
// sends it unless the feed is busy.
func (f *Feed) tell(n Notification, as Topic) {
	if f.may != nil && !f.may(n, as) {
		return
	}
	if n.Items = nil; n.Kind < numLists {
		n.Name = "" // clients are told that the list has changed
	}
	if f.note(n, as) {
		f.send()
	}
}

// note adds a notification to its queue, and reports whether the caller must call send.
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

// maxPosted bounds the notifications of one feed that are posted and not written.
const maxPosted = 16

// send posts notifications from both queues. It is called when the notifications before were
// written, and by the caller that has made the feed busy. No queue can starve the other one.
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

// close empties the queues. The feed sends nothing more.
func (f *Feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.changes, f.events = true, latest{}, nil
}
