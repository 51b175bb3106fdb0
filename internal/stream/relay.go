package stream

import "github.com/vitrine-mcp/vitrine/mcp"

// A Fate is what became of a message that another process was to write. The zero value says that it was sent.
type Fate struct {
	Stored  bool           // it is in the log of the stream there
	Dropped mcp.DropReason // why it will not be sent, or ""
	// Moved is the stream that is to carry the message instead; nil if it has its fate.
	Moved *Stream
}

// Busy reports whether a message waits, or was handed over and has no fate yet.
func (st *Stream) Busy() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.relaying || len(st.messages) > 0
}

// Relay is the writer of a stream whose messages another process writes. It hands them over one by one and in
// their order, and returns when the stream has failed. hand returns the fate of a message, for which the next
// one waits.
func (st *Stream) Relay(hand func(m *Message) Fate) {
	var batch []*Message
	for {
		st.mu.Lock()
		st.relaying = false
		if st.phase == failed {
			st.mu.Unlock()
			return
		}
		batch, _ = st.grab(batch[:0], min(1, len(st.messages)))
		st.relaying = len(batch) > 0
		st.mu.Unlock()
		if len(batch) == 0 {
			<-st.wake
			continue
		}
		m := batch[0]
		if !m.Delivery.Claim() {
			m.dropped(mcp.DropCancelled)
			continue
		}
		switch fate := hand(m); {
		case fate.Moved != nil:
			m.refund()
			_ = fate.Moved.Post(m) // a stream that has failed meanwhile drops it
		case fate.Dropped != "":
			m.dropped(fate.Dropped)
		case fate.Stored:
			m.stored()
		default:
			m.sent()
		}
	}
}
