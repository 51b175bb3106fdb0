package stream

import (
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Lost tells the stream that the exchange that it was made for is gone. What that does is its
// [Loss]. A stream that can be resumed goes on.
func (st *Stream) Lost() { st.lostBy(firstReader) }

// lostBy is Lost for the exchange with a number.
func (st *Stream) lostBy(number int) {
	st.mu.Lock()
	if st.logging.log != nil || st.seats.reader != number {
		gone := st.detach(number)
		st.mu.Unlock()
		if gone {
			st.logLost()
			st.signal()
		}
		return
	}
	owners := st.owners
	st.owners, st.lost = nil, true
	first := st.phase != failed
	st.mu.Unlock()
	if first {
		st.logLost()
	}
	if st.cfg.Loss != LossCancels {
		st.Fail(mcp.DropStreamGone)
		st.orphan(owners)
		return
	}
	for _, o := range owners {
		o.Disconnect(mcp.DropCancelled)
	}
	st.Fail(mcp.DropBrokenPeer)
}

func (st *Stream) logLost() {
	st.host.Logger.Debug("stream.lost", "transport", st.cfg.Transport, "remote", st.cfg.Remote)
}

// orphan bounds how long owners go on whose stream is gone.
func (st *Stream) orphan(owners []Owner) {
	grace := st.host.Limits.OrphanGrace
	if grace == 0 {
		return // until their deadline
	}
	for _, o := range owners {
		time.AfterFunc(grace, func() { o.Disconnect(mcp.DropStreamGone) })
	}
}
