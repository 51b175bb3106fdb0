package session

import (
	"errors"

	"github.com/vitrine-mcp/vitrine/internal/wire"
)

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
