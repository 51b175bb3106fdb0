package session

import (
	"errors"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A batch is what the messages of one JSON-RPC batch have in common: the ids that
// they use, and the array in which their answers leave together. Each of them is a
// request, a notification or a response like any other one; only an answer waits in
// the array for the others, and has no fate before the array has one.
//
// Only the reader uses ids and rejected.
type batch struct {
	*stream.Batch
	ids      map[string]bool // of the requests in the batch; true for those that were received
	rejected int             // answers that the reader has given itself

	values atomic.Int64 // bytes that the Go values of its requests take, also of those that are over
}

// TakesBatches reports whether the client may send JSON-RPC batches: it has agreed
// on the one revision that has them.
func (s *Session) TakesBatches() bool {
	p := s.Peer()
	return p != nil && p.Version == mcp.Version20250326
}

// newBatch opens a batch whose answers leave on st. While the reader is at it, the
// array does not leave.
func newBatch(st *stream.Stream, members []Member) *batch {
	b := &batch{Batch: st.NewBatch(), ids: map[string]bool{}}
	for _, m := range members {
		if m.In != nil && m.In.Kind == wire.Request {
			b.ids[m.In.ID.Key()] = false
		}
	}
	return b
}

// uses reports whether a request of the batch has this id. b may be nil.
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
	b.Expect()
	return in
}

// reject adds an answer of the reader's own. It does not wait for room: how many there
// are, the size of the batch bounds; ReceiveBatchOn slows down a client that sends many such
// batches.
func (b *batch) reject(m *stream.Message) {
	b.rejected++
	b.Push(m)
}

// takesValue reports whether a request of the batch may have a Go value of so many bytes: all together take no more than one
// request may, because they came as one message. What is refused does not count. b may be nil.
func (b *batch) takesValue(bytes, limit int) bool {
	for b != nil {
		before := b.values.Load()
		after := before + int64(bytes)
		if after > int64(limit) {
			return false
		}
		if b.values.CompareAndSwap(before, after) {
			break
		}
	}
	return true
}

// A Member is one message of a JSON-RPC batch, or what is wrong with it.
type Member struct {
	In  *Inbound    // nil if it is no message
	Bad *wire.Error // nil if it is one
}

// SplitBatch decodes the messages of a JSON-RPC batch. Each is judged by itself: the
// error is one of the whole frame. template has what they have in common.
func SplitBatch(frame []byte, limits wire.Limits, template Inbound) ([]Member, *wire.Error) {
	var bad *wire.Error
	frames, err := wire.SplitBatch(frame, limits)
	if errors.As(err, &bad) {
		return nil, bad
	}
	members := make([]Member, len(frames))
	for i, f := range frames {
		in := template
		in.Bytes = len(f)
		if in.Envelope, err = wire.Decode(f, limits); errors.As(err, &members[i].Bad) {
			continue
		}
		members[i].In = &in
	}
	return members, nil
}
