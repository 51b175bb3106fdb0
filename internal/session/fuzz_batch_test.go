package session

import (
	"fmt"
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// batch sends a batch of two to five messages to a client's session: most of them
// requests, of which some have the same id.
func (sc *script) batch(a, b byte) {
	frames := batchFrames(a, b)
	end, posted := pickOne(sc.https, a>>4)
	if posted = posted && a&1 == 0; !posted {
		end = sc.pipe(a >> 4)
	}
	if end.eof {
		return // nothing comes after the end
	}
	if posted {
		members := batchOf(httpConn, frames...)
		sc.countBatch(end, members)
		x := sc.exchange(end, 1, mcp.Legacy)
		end.s.ReceiveBatchOn(members, x.stream, a&2 == 0)
		x.pump()
		sc.unwanted(end, members)
		return
	}
	members := batchOf(end.s.conn, frames...)
	sc.countBatch(end, end.received(sc, members))
	end.s.ReceiveBatch(members)
	sc.unwanted(end, members)
}

// batchFrames are the messages of a batch.
func batchFrames(a, b byte) (frames []string) {
	for i := range 2 + int(b>>6) {
		id := fuzzIDs[(int(b)+i*int(a>>5|1))&7].raw
		tool := fuzzTools[(int(b>>2)+i*int(a|1))&15]
		frame := callFrame(id, tool)
		switch (int(a) + i*int(b|1)) >> 2 & 15 {
		case 0:
			frame = cancelFrame(id, "as scripted")
		case 1:
			frame = fmt.Sprintf(`{"jsonrpc":"1.0","id":%s,"method":"ping"}`, id)
		case 2:
			frame = `7`
		case 3:
			frame = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
		case 4:
			frame = initializeFrame
		case 5:
			frame = modernFrame(id, tool)
		}
		frames = append(frames, frame)
	}
	return frames
}

// received returns those members that the session will take: after too many malformed
// ones in a row it takes no more.
func (e *farEnd) received(sc *script, members []Member) []Member {
	garbage := 0
	e.s.update(func(st *state) { garbage = st.malformed })
	for i, m := range members {
		if m.Bad == nil {
			garbage = 0
			continue
		}
		if garbage++; garbage >= sc.core.limits.MaxConsecutiveMalformed {
			e.garbage = true
			return members[:i+1]
		}
	}
	return members
}

// countBatch counts each member as a message of its own.
func (sc *script) countBatch(end *farEnd, members []Member) {
	for _, m := range members {
		if m.Bad != nil {
			sc.countBad(end, m.Bad)
		} else {
			sc.count(m.In)
		}
	}
}

// unwanted notes the requests that the cancels in a batch may have hit.
func (sc *script) unwanted(end *farEnd, members []Member) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, m := range members {
		if m.In == nil || m.In.Cancel == nil || !m.In.Cancel.RequestIDOK {
			continue
		}
		for _, tr := range sc.order {
			if tr.end == end && tr.r.ID.Key() == m.In.Cancel.RequestID.Key() {
				tr.unwanted = true
			}
		}
	}
}

// single returns the messages that are in messages: an array is what is in it.
func (sc *script) single(messages []*stream.Message) (all []*stream.Message) {
	for _, m := range messages {
		if m.Parts() == nil {
			all = append(all, m)
			continue
		}
		var frames []string
		for _, part := range m.Parts() {
			frames = append(frames, string(part.Frame))
		}
		if string(m.Frame) != "["+strings.Join(frames, ",")+"]" {
			sc.fault("a corrupt array: %s", m.Frame)
		}
		all = append(all, m.Parts()...)
	}
	return all
}

// waitingRejections counts the rejections that wait for the rest of their arrays. The answer to a
// request that has lost its place in the queue is none: that request was admitted.
func waitingRejections(st *stream.Stream) (n int) {
	_, held, _ := st.Waiting()
	for _, m := range held {
		if requestOf(m) == nil && m.Reject != "" && m.Reject != mcp.RejectParseError {
			n++
		}
	}
	return n
}

// requestOf returns the request that a message answers or is about, or nil.
func requestOf(m *stream.Message) *Request {
	switch d := m.Delivery.(type) {
	case *answer:
		return (*Request)(d)
	case *notice:
		return d.about
	}
	return nil
}
