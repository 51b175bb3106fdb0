package transport

import (
	"errors"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
)

// splitBatch decodes the messages of a JSON-RPC batch. Each is judged by itself: the
// error is one of the whole frame. template has what they have in common.
func splitBatch(frame []byte, limits wire.Limits, template session.Inbound) ([]session.Member, *wire.Error) {
	var bad *wire.Error
	frames, err := wire.SplitBatch(frame, limits)
	if errors.As(err, &bad) {
		return nil, bad
	}
	members := make([]session.Member, len(frames))
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
