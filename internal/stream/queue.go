package stream

import "slices"

// A queue is what waits on a stream for its writer. Answers, rejections and calls always
// find room: the requests behind answers are bounded, and so are pending calls.
// Notifications wait for room. All is guarded by Stream.mu.
type queue struct {
	messages []*Message
	bytes    int                 // of the messages
	rejected int                 // bytes that answer what was not admitted
	held     int                 // bytes of answers that wait for the rest of their array
	room     chan struct{}       // closed when the queue has shrunk; nil while nobody waits
	arrays   map[*Batch]struct{} // whose answers wait for each other

	expected int // answers until the stream ends by itself, unless it is endless
	answered int // answers to admitted requests that were queued
	owed     int // answers that are still to be queued before the stream has ended

	posted posted
}

// The caller of the methods below must hold st.mu.

// take moves the first n messages of the queue to a batch.
func (q *queue) take(batch []*Message, n int) []*Message {
	batch = append(batch, q.messages[:n]...)
	rest := copy(q.messages, q.messages[n:])
	clear(q.messages[rest:])
	q.messages = q.messages[:rest]
	for _, m := range batch {
		q.bytes -= m.Size()
		_, rejections := m.count()
		q.rejected -= rejections
		if m.Kind == Answer {
			q.expected--
		}
	}
	q.shrunk()
	return batch
}

// empty takes all messages out of the queue, and all answers that wait for others.
func (q *queue) empty() (all []*Message) {
	all = q.messages
	for b := range q.arrays {
		all = append(all, b.waiting...)
		b.waiting = nil
	}
	q.arrays = nil
	q.messages, q.bytes, q.rejected, q.held = nil, 0, 0, 0
	q.shrunk()
	return all
}

// flushBytes is how much is written before it is flushed. What the peer has been handed
// has its fate then, although the rest of the batch may wait for a slow reader.
const flushBytes = 64 << 10

// piece returns how many messages are written before a flush.
func (q *queue) piece() (n int) {
	for bytes := 0; n < len(q.messages) && bytes < flushBytes; n++ {
		bytes += q.messages[n].Size()
	}
	return n
}

// coalesceFrom is how many messages wait when a notification begins to replace one with its key:
// a client that reads gets each of them.
const coalesceFrom = 16

// supersede takes the waiting notification with the key of m out of the queue, which m can then
// join. It returns nil if there is none.
func (q *queue) supersede(m *Message) (old *Message) {
	if m.Key.Name == "" {
		return nil
	}
	for i, old := range slices.Backward(q.messages) {
		if old.Key == m.Key {
			q.messages = slices.Delete(q.messages, i, i+1)
			q.bytes -= old.Size()
			return old
		}
	}
	return nil
}

// shrinking is closed when the queue has shrunk or the stream has failed.
func (q *queue) shrinking() <-chan struct{} {
	if q.room == nil {
		q.room = make(chan struct{})
	}
	return q.room
}

// shrunk wakes the callers that wait for room.
func (q *queue) shrunk() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// maxPosted is how many notifications a stream without a reader remembers as posted.
const maxPosted = 256

// posted are the notifications that were posted since the last reader has gone.
type posted struct {
	frames  map[string]struct{}
	readers int // how many readers there have been then
}
