package session

import (
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A batch is what the messages of one JSON-RPC batch have in common: the ids that
// they use, and the array in which their answers leave together. Each of them is a
// request, a notification or a response like any other one; only an answer waits in
// the array for the others, and has no fate before the array has one.
type batch struct {
	stream *Stream

	// Only the reader uses these.
	ids     map[string]bool // of the requests in the batch; true for those that were received
	refused int             // answers that the reader has given itself

	// Guarded by stream.mu.
	apart   bool       // the answers leave one by one
	open    int        // answers that may still come, and one for the reader while it is at it
	waiting []*Message // answers that are there
}

// TakesBatches reports whether the client may send JSON-RPC batches: it has agreed
// on the one revision that has them.
func (s *Session) TakesBatches() bool {
	p := s.Peer()
	return p != nil && p.Version == mcp.Version20250326
}

// ReceiveBatch takes the messages of one batch of a byte stream, in their order
// (specification 2025-03-26: "Batching"). Their answers leave as one array, as soon
// as the last of them is there.
func (s *Session) ReceiveBatch(members []Member) { s.ReceiveBatchOn(members, s.stream, false) }

// ReceiveBatchOn is ReceiveBatch for a batch whose answers leave on st. If apart is
// set they leave one by one, each as soon as it is there, unless every one of them
// refuses. It returns how many requests were admitted; without any, all the answers
// that there will be are there.
func (s *Session) ReceiveBatchOn(members []Member, st *Stream, apart bool) (admitted int) {
	b := newBatch(st, members)
	for _, m := range members {
		switch {
		case m.Bad != nil:
			answer, last := s.judge(m.Bad, b)
			if answer != nil {
				b.expect()
				b.refuse(answer)
			}
			if last {
				return admitted // the session is closed
			}
		case m.In.Kind == wire.Request:
			before := b.refused
			s.ReceiveOn(b.take(m.In), st)
			if b.refused == before {
				admitted++
			}
		default:
			s.ReceiveOn(m.In, st)
		}
	}
	b.received(apart && admitted > 0)
	return admitted
}

// newBatch opens a batch whose answers leave on st. While the reader is at it, the
// array does not leave.
func newBatch(st *Stream, members []Member) *batch {
	b := &batch{stream: st, ids: map[string]bool{}, open: 1}
	for _, m := range members {
		if m.In != nil && m.In.Kind == wire.Request {
			b.ids[m.In.ID.Key()] = false
		}
	}
	st.single = false // an array may leave when the one request in it has left
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failed == "" {
		if st.batches == nil {
			st.batches = map[*batch]struct{}{}
		}
		st.batches[b] = struct{}{}
	}
	return b
}

// uses reports whether a request of the batch has this id.
func (b *batch) uses(id mcp.ID) bool {
	if b == nil {
		return false
	}
	_, found := b.ids[id.Key()]
	return found
}

// take makes a request one of the batch. An id that comes a second time is a
// duplicate even if the first request is settled: both answers would reach the
// client at one moment.
func (b *batch) take(in *Inbound) *Inbound {
	in.batch, in.repeated = b, b.ids[in.ID.Key()]
	b.ids[in.ID.Key()] = true
	switch {
	case in.Method == mcp.MethodInitialize:
		in.Refusal = mcp.NewError(mcp.CodeInvalidRequest, "initialize must not be part of a batch")
	case in.Meta.HasProtocolVersion:
		in.Refusal = mcp.NewError(mcp.CodeInvalidRequest, "this protocol version has no batches")
	}
	b.expect()
	return in
}

// expect announces an answer.
func (b *batch) expect() {
	b.stream.mu.Lock()
	defer b.stream.mu.Unlock()
	b.open++
}

// refuse adds an answer of the reader's own. It does not wait for room: how many there
// are, the size of the batch bounds; received slows down who sends many such batches.
func (b *batch) refuse(m *Message) {
	b.refused++
	m.batch = b
	b.stream.push(m)
}

// forgo tells the batch that an answer which it waits for will not come.
func (b *batch) forgo() {
	st := b.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if b.apart {
		st.skip()
		return
	}
	b.open--
	b.leave()
}

// received tells the batch that the reader is through with it.
func (b *batch) received(apart bool) {
	st := b.stream
	st.mu.Lock()
	b.open--
	if apart {
		b.part()
	} else {
		b.leave()
	}
	st.mu.Unlock()
	if b.refused > 0 && st.kind == byteStream {
		st.awaitRefusals(0)
	}
}

// The helpers that follow want stream.mu.

// collect takes an answer into the array; false if it leaves by itself.
func (b *batch) collect(m *Message) bool {
	if b == nil || b.apart {
		return false
	}
	b.waiting = append(b.waiting, m)
	b.stream.held += m.Size()
	b.open--
	b.leave()
	return true
}

// empty takes the answers out of the array.
func (b *batch) empty() (answers []*Message) {
	answers, b.waiting = b.waiting, nil
	for _, m := range answers {
		b.stream.held -= m.Size()
	}
	return answers
}

// leave queues the array if nothing is missing. Without any answer there is none.
func (b *batch) leave() {
	if b.open > 0 {
		return
	}
	answers := b.empty()
	delete(b.stream.batches, b)
	if len(answers) == 0 {
		b.stream.skip()
		return
	}
	b.stream.append(arrayOf(answers))
	b.stream.signal()
}

// part lets the answers go one by one.
func (b *batch) part() {
	st, answers := b.stream, b.empty()
	b.apart = true
	delete(st.batches, b)
	st.expected += b.open + len(answers)
	st.skip() // there will be no array; and it wakes the writer
	for _, m := range answers {
		st.append(m)
	}
}

// arrayOf returns the message that carries answers in one frame. If every one of them
// refuses, it refuses as the first one does.
func arrayOf(answers []*Message) *Message {
	size := len("]")
	refuses := true
	for _, a := range answers {
		size += len(",") + a.Size()
		refuses = refuses && a.request == nil
	}
	frame := make([]byte, 0, size)
	for i, a := range answers {
		frame = append(append(append(frame, "[,"[min(i, 1)]), a.Frame...), a.Rest...)
	}
	array := &Message{Kind: Answer, Frame: append(frame, ']'), parts: answers}
	if refuses {
		array.Err, array.Reject = answers[0].Err, answers[0].Reject
	}
	return array
}

// takeWaiting takes the answers out of the arrays of a stream that has failed.
func (st *Stream) takeWaiting() (answers []*Message) {
	for b := range st.batches {
		answers = append(answers, b.waiting...)
		b.waiting = nil
	}
	st.batches = nil
	return answers
}

// answers counts the answers to admitted requests in a message.
func (m *Message) answers() (n int) {
	for _, part := range m.parts {
		n += part.answers()
	}
	if m.Kind == Answer && m.request != nil {
		n++
	}
	return n
}
