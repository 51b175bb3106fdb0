package stream

import "sync"

// wakes are the channels that wake the writers of streams. They are used again: an exchange
// would make one for its one answer. The plain version is make(chan struct{}, 1) for each
// stream.
//
// A signal may reach a stream that reuses the channel. Its writer finds nothing to do and
// waits again.
type wakes struct{ idle sync.Pool } // of chan struct{}

// get returns a channel of capacity 1. There may be something in it.
func (w *wakes) get() chan struct{} {
	if c, ok := w.idle.Get().(chan struct{}); ok {
		return c
	}
	return make(chan struct{}, 1)
}

// put takes back a channel that has no receiver any more.
func (w *wakes) put(c chan struct{}) { w.idle.Put(c) }
