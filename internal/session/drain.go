package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
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
	queued := &mcp.CancelError{Cause: mcp.CauseServerShutdown}
	answer := ShuttingDown().WithData(mcp.ErrorData{Reason: string(mcp.RejectShuttingDown), Phase: "queued"})
	for _, r := range live[*Request](c.ledger) {
		// A request that has its slots begins in a moment, and is waited for like a running one.
		if r.queued && r.cancelQueued(queued, answer) {
			c.logger.InfoContext(r.ctx, "request.refused", append(r.LogAttrs(), "reason", mcp.RejectShuttingDown)...)
		}
	}
	close(c.subscriptionsEnding)
	for _, s := range c.allSessions() {
		s.endStanding()
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
	for _, idle := range append([]<-chan struct{}{c.ledger.idle}, others...) {
		select {
		case <-idle:
			continue
		case <-timer.C:
		case <-c.closing:
		}
		return c.stillRunning()
	}
	return nil
}

// stillRunning names the handlers that have not returned.
func (c *Core) stillRunning() (names []string) {
	for _, w := range live[Work](c.ledger) {
		if w.started() && !w.part().hasReturned() {
			names = append(names, w.part().describe())
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

// awaitIdle waits for the running requests and the detached work, and logs the progress.
func (c *Core) awaitIdle(ctx context.Context) {
	select {
	case <-c.ledger.idle:
		return // also if ctx is done already
	default:
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-c.ledger.idle:
			return
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

// stop cancels what still runs, answers it, closes all sessions and returns the
// handlers that did not return.
func (c *Core) stop() (left []string) {
	err := &mcp.CancelError{Cause: mcp.CauseServerShutdown}
	c.ledger.close() // or what follows would not cancel all
	for _, w := range live[Work](c.ledger) {
		w.interrupt(err)
	}
	end := time.Now().Add(c.limits.CleanupGrace)
	c.awaitClean(end)
	answer := causeError(mcp.CauseServerShutdown, "")
	for _, r := range live[*Request](c.ledger) {
		r.cancelAnswered(err, answer)
	}
	c.flush(end)
	sessions := c.allSessions()
	for _, s := range sessions {
		c.tasks.start(func() { s.finish(mcp.CauseServerShutdown, 0) })
	}
	for _, s := range sessions {
		<-s.done
	}
	for _, w := range live[Work](c.ledger) {
		if w.part().abandon() {
			left = append(left, w.part().describe())
		}
	}
	c.tasks.wait()
	return left
}

// awaitClean waits for cancelled handlers until the clean-up grace ends. When all
// patience has ended it waits only for a fifth of that grace.
func (c *Core) awaitClean(end time.Time) {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-c.ledger.idle:
		return
	case <-timer.C:
		return
	case <-c.closing:
	}
	timer.Reset(c.limits.CleanupGrace / 5)
	select {
	case <-c.ledger.idle:
	case <-timer.C:
	}
}

// flush waits until every answer was written, and gives up the streams whose peers
// do not read. The last writes have what is left of the grace, and a fifth of it at least.
func (c *Core) flush(end time.Time) {
	bound := time.Now().Add(max(time.Until(end), c.limits.CleanupGrace/5))
	for _, st := range c.owing() {
		st.Hurry(bound)
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
func (c *Core) owing() (streams []*stream.Stream) {
	for _, r := range live[*Request](c.ledger) {
		if fate, _ := r.Fate(); fate == FateUnknown {
			streams = append(streams, r.stream)
		}
	}
	return streams
}
