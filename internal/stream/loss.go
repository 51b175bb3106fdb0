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
	if st.logging.log != nil || st.exchanges.reader != number {
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
	if grace < 0 {
		return // until their deadline
	}
	for _, o := range owners {
		o.Orphan(grace, func() { o.Disconnect(mcp.DropStreamGone) })
	}
}

// Own adds an owner, and says how the stream gets a log; either may be nil. The stream may be lost already: a client can leave between sending a
// request and its admission.
func (st *Stream) Own(owner Owner, logs Opener) {
	st.mu.Lock()
	if owner != nil {
		st.owners = append(st.owners, owner)
	}
	if logs != nil {
		st.logging.opener = logs
	}
	lost := st.lost
	st.mu.Unlock()
	if lost {
		st.Lost()
	}
}

// detach takes the exchange with a number away from the stream, whose client does not read any more; false if the
// stream has failed, or another exchange reads it. What it carries goes to the log from now on.
// The caller must hold st.mu.
func (st *Stream) detach(number int) bool { return st.detachBy(number, time.Now()) }

// detachBy is detach, and lets a write go on until the given time.
func (st *Stream) detachBy(number int, until time.Time) bool {
	if st.phase == failed || st.exchanges.reader != number {
		return false
	}
	st.detachReader(0)
	st.exchanges.until = until
	if w := &st.wire; w.sink != nil && w.writing {
		now := time.Now()
		w.late = !w.deadline.IsZero() && !now.Before(w.deadline)
		w.limited = nil
		w.sink.SetWriteDeadline(until)
	}
	return true
}

// detachReader notes that no exchange reads the stream. The client was told to come back after
// the given time, if at all. The caller must hold st.mu.
func (st *Stream) detachReader(after time.Duration) {
	st.exchanges.reader, st.exchanges.until = noReader, time.Now()
	st.alone.Store(true)
	st.readersMoved()
	grace := st.host.Limits.OrphanGrace
	if grace < 0 {
		return // until their deadline
	}
	readers := st.exchanges.readers
	for _, o := range st.owners {
		o.Orphan(grace+after, func() {
			st.mu.Lock()
			back := st.exchanges.readers != readers
			st.mu.Unlock()
			if !back {
				o.Disconnect(mcp.DropStreamGone)
				st.Fail(mcp.DropStreamGone)
			}
		})
	}
}
