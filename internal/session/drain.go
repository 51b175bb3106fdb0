package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Shutdown drains the core. New requests are rejected, queued ones answered with an
// error at once, and subscriptions ended; running ones may finish until ctx is done. Then they
// are cancelled with server_shutdown and have the clean-up grace to return an
// answer; what is left gets an error. At last the sessions are closed. It
// returns an error that matches [ErrAbandoned] and names the handlers that did
// not return, or nil. A second call waits for the first.
func (c *Core) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	first := !c.draining.Swap(true)
	c.mu.Unlock()
	if !first {
		<-c.drained
		return c.result
	}
	c.ledger.seal()
	c.detached.seal()
	queued := &mcp.CancelError{Cause: mcp.CauseServerShutdown}
	answer := shuttingDown().WithData(mcp.ErrorData{Reason: string(mcp.RejectShuttingDown), Phase: "queued"})
	for _, r := range c.ledger.live() {
		// One that has its slots begins in a moment, and is waited for like those that run.
		if r.queued && r.refuseQueued(queued, answer) {
			c.logger.InfoContext(r.ctx, "request.refused", append(r.LogAttrs(), "reason", mcp.RejectShuttingDown)...)
		}
	}
	close(c.parting)
	for _, s := range c.allSessions() {
		s.farewell()
	}
	c.awaitIdle(ctx)
	left := c.stop()
	c.result = abandonedError(left)
	close(c.drained)
	return c.result
}

// AwaitHandlers waits, after [Core.Shutdown], at most for a time for the handlers that did
// not return and for others, which close their channel, and names the handlers that still
// have not. [Core.Close] ends the wait.
func (c *Core) AwaitHandlers(patience time.Duration, others ...<-chan struct{}) (left []string) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for _, idle := range append(c.idles(), others...) {
		select {
		case <-idle:
			continue
		case <-timer.C:
		case <-c.closing:
		}
		return c.running()
	}
	return nil
}

// running names the handlers that have not returned.
func (c *Core) running() (names []string) {
	for _, r := range c.ledger.live() {
		if r.verdict.started() && !r.hasReturned() {
			names = append(names, r.describe())
		}
	}
	for _, d := range c.detached.list() {
		if !d.over() {
			names = append(names, d.describe())
		}
	}
	return names
}

// Close ends all patience with handlers, of a running Shutdown or of the next one:
// they are cancelled and not waited for. Only the last answers still have the
// clean-up grace to be written, to a peer that is slow to read.
func (c *Core) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closing:
	default:
		close(c.closing)
	}
}

// idles are closed when, after the seal, no request is live and no work is detached.
func (c *Core) idles() []<-chan struct{} { return []<-chan struct{}{c.ledger.idle, c.detached.idle} }

// isOver lets a drain without patience see that there is nothing to wait for.
func isOver(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitIdle waits for the running requests and the detached work, and logs the progress.
func (c *Core) awaitIdle(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for _, idle := range c.idles() {
		for waiting := !isOver(idle); waiting; {
			select {
			case <-idle:
				waiting = false
			case <-ctx.Done():
				c.logDeadline()
				return
			case <-c.closing:
				return
			case <-ticker.C:
				c.logProgress()
			}
		}
	}
}

// stop cancels what still runs, answers it, closes all sessions and returns the
// handlers that did not return.
func (c *Core) stop() (left []string) {
	err := &mcp.CancelError{Cause: mcp.CauseServerShutdown}
	for _, r := range c.ledger.live() {
		r.interrupt(err)
	}
	for _, d := range c.detached.list() {
		d.Cancel(err)
	}
	end := time.Now().Add(c.limits.CleanupGrace)
	c.awaitClean(end)
	answer := causeError(mcp.CauseServerShutdown, "")
	for _, r := range c.ledger.live() {
		r.refuse(err, answer)
	}
	c.flush(end)
	sessions := c.allSessions()
	for _, s := range sessions {
		c.tasks.start(func() { s.finish(mcp.CauseServerShutdown, 0) })
	}
	for _, s := range sessions {
		<-s.done
	}
	for _, r := range c.ledger.live() {
		if c.abandon(r) {
			left = append(left, r.describe())
		}
	}
	for _, d := range c.detached.list() {
		if d.abandon() {
			left = append(left, d.describe())
		}
	}
	c.tasks.wait()
	return left
}

// awaitClean waits for cancelled handlers until the clean-up grace ends. When all
// patience has ended it is short, but those that obey at once are not left behind.
func (c *Core) awaitClean(end time.Time) {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	closing := c.closing
	for _, idle := range c.idles() {
		for waiting := true; waiting; {
			select {
			case <-idle:
				waiting = false
			case <-timer.C:
				return
			case <-closing:
				closing = nil
				timer.Reset(c.limits.CleanupGrace / 5)
			}
		}
	}
}

// flush waits until every answer was written, and gives up the streams whose peers
// do not read. The last writes have what is left of the grace, but not nothing.
func (c *Core) flush(end time.Time) {
	bound := time.Now().Add(max(time.Until(end), c.limits.CleanupGrace/5))
	for _, st := range c.owing() {
		st.hurry(bound)
	}
	timer := time.NewTimer(time.Until(bound))
	defer timer.Stop()
	select {
	case <-c.ledger.answered:
	case <-timer.C:
		for _, st := range c.owing() {
			st.Fail(mcp.DropWriteTimeout)
		}
	}
}

// owing returns the streams on which an answer waits. A request whose answer was sent
// is live too, while its handler has not returned: it must not cost others their stream.
func (c *Core) owing() (streams []*Stream) {
	for _, r := range c.ledger.live() {
		if fate, _ := r.Fate(); fate == FateUnknown {
			streams = append(streams, r.stream)
		}
	}
	return streams
}
