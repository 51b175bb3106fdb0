package stream

import (
	"slices"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// next moves to the writer what is written in one piece, up to a mark that ends the exchange.
// The rest stays in the queue, whose bounds would not count it otherwise. done tells that nothing
// follows.
func (st *Stream) next(batch []*Message) (_ []*Message, done bool, reason mcp.DropReason) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if reason = st.stopped(); reason != "" {
		return nil, true, reason
	}
	n := st.piece()
	if st.exchanges.closing {
		n = min(n, 1+slices.IndexFunc(st.messages, func(m *Message) bool { return m.EndsExchange }))
	}
	batch, done = st.grab(batch, n)
	return batch, done, ""
}

// grab takes n messages off the queue; done tells that they are the last. The caller must
// hold st.mu.
func (st *Stream) grab(batch []*Message, n int) (_ []*Message, done bool) {
	batch = st.take(batch, n)
	for _, m := range batch {
		if m.EndsExchange {
			st.exchanges.closing = false
		}
	}
	if st.expected <= 0 && !st.endless() {
		st.enter(ended)
	}
	return batch, st.phase == ended && len(st.messages) == 0
}
