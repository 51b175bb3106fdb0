package stream

import "github.com/vitrine-mcp/vitrine/mcp"

// A Batch collects the answers of one JSON-RPC batch, which leave together in one array. An
// answer waits in it for the others, and has no fate before the array has one. Its methods
// are safe for concurrent use.
type Batch struct {
	stream *Stream

	// Guarded by stream.mu.
	apart   bool       // the answers leave one by one
	open    int        // answers that may still come, and one for the reader until Received
	waiting []*Message // answers that are there
}

// NewBatch opens a batch whose answers leave on the stream. Until [Batch.Received] the array
// does not leave. If the stream is for a single answer, it must have no owner yet.
func (st *Stream) NewBatch() *Batch {
	b := &Batch{stream: st, open: 1}
	if st.single { // a stream that others use already is not single
		st.single = false // an array may leave when the one request in it has left
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.phase != failed {
		if st.arrays == nil {
			st.arrays = map[*Batch]struct{}{}
		}
		st.arrays[b] = struct{}{}
	}
	return b
}

// Expect announces an answer.
func (b *Batch) Expect() {
	b.stream.mu.Lock()
	defer b.stream.mu.Unlock()
	b.open++
}

// Push adds an answer that was announced.
func (b *Batch) Push(m *Message) {
	st := b.stream
	st.Charge(m) // it is queued in any case
	st.mu.Lock()
	reason := st.closedReason()
	switch {
	case reason != "":
	case b.apart:
		st.append(m)
	default:
		b.waiting = append(b.waiting, m)
		st.held += m.Size()
		b.open--
		b.leave()
	}
	st.mu.Unlock()
	if reason != "" {
		m.dropped(reason)
		return
	}
	st.signal()
}

// Skip tells the batch that an answer which it waits for will not come.
func (b *Batch) Skip() {
	b.stream.mu.Lock()
	defer b.stream.mu.Unlock()
	if b.apart {
		b.stream.skip()
		return
	}
	b.open--
	b.leave()
}

// Received tells the batch that all its messages were received. If apart is set, the answers
// leave one by one.
func (b *Batch) Received(apart bool) {
	b.stream.mu.Lock()
	defer b.stream.mu.Unlock()
	b.open--
	if apart {
		b.split()
	} else {
		b.leave()
	}
}

// The caller of the methods below must hold stream.mu.

// empty takes the answers out of the batch.
func (b *Batch) empty() (answers []*Message) {
	answers, b.waiting = b.waiting, nil
	for _, m := range answers {
		b.stream.held -= m.Size()
	}
	delete(b.stream.arrays, b)
	return answers
}

// leave queues the array if nothing is missing. Without any answer there is none.
func (b *Batch) leave() {
	if b.open > 0 {
		return
	}
	answers := b.empty()
	if len(answers) == 0 {
		b.stream.skip()
		return
	}
	b.stream.append(arrayOf(answers))
	b.stream.signal()
}

// split lets the answers go one by one.
func (b *Batch) split() {
	st, answers := b.stream, b.empty()
	b.apart = true
	st.expected += b.open + len(answers)
	st.skip() // there will be no array; and it wakes the writer
	for _, m := range answers {
		st.append(m)
	}
}

// An array is the [Delivery] of a message that carries several answers.
type array struct {
	answers    []*Message
	admitted   int // answers to admitted requests
	rejections int // bytes of the others
}

// arrayOf returns the message that carries answers in one frame, which becomes theirs: what they
// were charged is charged for it. If every one of them rejects, it rejects as the first one does.
func arrayOf(answers []*Message) *Message {
	size := len("]")
	for _, a := range answers {
		size += len(",") + a.Size()
	}
	frame, all := make([]byte, 0, size), &array{answers: answers}
	for i, a := range answers {
		frame = append(frame, "[,"[min(i, 1)])
		start := len(frame)
		frame = append(append(frame, a.Frame...), a.Rest...)
		a.Frame, a.Rest = frame[start:len(frame):len(frame)], nil
		admitted, rejections := a.count()
		all.admitted += admitted
		all.rejections += rejections
	}
	m := &Message{Kind: Answer, Frame: append(frame, ']'), Delivery: all}
	if all.admitted == 0 {
		m.Err, m.Reject = answers[0].Err, answers[0].Reject
	}
	return m
}

// sums implements [aggregate].
func (a *array) sums() (admitted, rejections int) { return a.admitted, a.rejections }

// Claim implements [Delivery].
func (a *array) Claim() bool { return true }

// Sent implements [Delivery].
func (a *array) Sent() {
	for _, m := range a.answers {
		m.sent()
	}
}

// Stored implements [Delivery].
func (a *array) Stored() {
	for _, m := range a.answers {
		m.stored()
	}
}

// Dropped implements [Delivery].
func (a *array) Dropped(reason mcp.DropReason) {
	for _, m := range a.answers {
		m.dropped(reason)
	}
}
