package stream

import "time"

// QuickAnswer is the time in which nearly all answers come. While the writer of an exchange
// waits for one that may be quick, it waits for nothing else: that a peer has gone, or should
// be shown a sign of life, it looks after only from then on. A quick answer that is small needs no
// deadline either, as the alarm of its request, which sets one, goes on until it is written.
//
// The plain version waits for all of these from the start, and sets a deadline for each write.
const QuickAnswer = 5 * time.Millisecond

// LargeFrame is the size in bytes from which on an answer is a large one: it does not
// fit into the buffers of the kernel.
const LargeFrame = 16 << 10

// ExpectQuick tells a stream that its one answer may come any moment, until [Stream.Slow];
// false if it carries more than one. It must be called before the request runs.
func (st *Stream) ExpectQuick() bool {
	if st.single {
		st.quick.Store(true)
	}
	return st.single
}

// Quick reports whether the answer is still expected to be quick.
func (st *Stream) Quick() bool { return st.quick.Load() }

// Slow tells the stream that its answer is not a quick one, and the writer, even if it is
// writing it.
func (st *Stream) Slow() {
	st.mu.Lock()
	quick := st.quick.Swap(false)
	if quick && st.wire.sink != nil && st.wire.writing {
		st.limitWrite(st.wire.sink, time.Now())
	}
	st.mu.Unlock()
	if quick {
		st.signal()
	}
}

// isQuick reports whether a batch is one small answer that is not part of an event
// stream: it fits into the buffers of the kernel, and waits for no store.
func (st *Stream) isQuick(batch []*Message) bool {
	return len(batch) == 1 && batch[0].Kind == Answer && batch[0].Size() <= LargeFrame &&
		st.logging.log == nil && !st.wire.events && st.form != eventsOnly
}
