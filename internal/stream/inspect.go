package stream

// This file lets the tests of the session core look into streams and messages.

// Waiting returns the messages that wait for the writer, the answers that wait for the rest
// of their array, and how many bytes all of these count for.
func (st *Stream) Waiting() (queued, held []*Message, bytes int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for b := range st.arrays {
		held = append(held, b.waiting...)
	}
	return append(queued, st.messages...), held, st.bytes + st.rejected + st.held
}

// Parts returns the answers that an array carries, and nil for any other message.
func (m *Message) Parts() []*Message {
	if a, ok := m.Delivery.(*array); ok {
		return a.answers
	}
	return nil
}
