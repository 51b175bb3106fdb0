package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Shutdown drains the core. New requests are rejected and queued ones answered
// with an error at once; running ones may finish until ctx is done. Then they
// are cancelled with server_shutdown and have the clean-up grace to return an
// answer; what is left gets an error. At last the sessions are closed. It
// returns an error that matches [ErrAbandoned] and names the handlers that did
// not return, or nil. A second call waits for the first.
func (c *Core) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	first := !c.draining
	c.draining = true
	c.mu.Unlock()
	if !first {
		<-c.drained
		return c.result
	}
	c.ledger.seal()
	queued := &mcp.CancelError{Cause: mcp.CauseServerShutdown}
	answer := shuttingDown().WithData(mcp.ErrorData{Reason: string(mcp.RejectShuttingDown), Phase: "queued"})
	for _, r := range c.ledger.live() {
		if r.refuseQueued(queued, answer) {
			c.logger.InfoContext(r.ctx, "request.refused", append(r.logAttrs(), "reason", mcp.RejectShuttingDown)...)
		}
	}
	for _, s := range c.allSessions() {
		s.farewell()
	}
	c.awaitIdle(ctx)
	left := c.stop()
	c.result = abandonedError(left)
	close(c.drained)
	return c.result
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

// awaitIdle waits for the running requests and logs the progress.
func (c *Core) awaitIdle(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-c.ledger.idle:
			return
		case <-ctx.Done():
			c.logDrain(slog.LevelWarn, "drain.deadline")
			return
		case <-c.closing:
			return
		case <-ticker.C:
			c.logDrain(slog.LevelInfo, "drain.progress")
		}
	}
}

func (c *Core) logDrain(level slog.Level, key string) {
	snap := c.Snapshot()
	c.logger.Log(context.Background(), level, key, "left", len(snap.Requests), "oldest", snap.OldestAge())
}

// stop cancels what still runs, answers it, closes all sessions and returns the
// handlers that did not return.
func (c *Core) stop() []*Request {
	err := &mcp.CancelError{Cause: mcp.CauseServerShutdown}
	for _, r := range c.ledger.live() {
		r.interrupt(err)
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
	var left []*Request
	for _, r := range c.ledger.live() {
		if c.abandon(r) {
			left = append(left, r)
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
// do not read. The last writes have what is left of the grace, but not nothing.
func (c *Core) flush(end time.Time) {
	bound := time.Now().Add(max(time.Until(end), c.limits.CleanupGrace/5))
	for _, r := range c.ledger.live() {
		r.stream.hurry(bound)
	}
	timer := time.NewTimer(time.Until(bound))
	defer timer.Stop()
	select {
	case <-c.ledger.answered:
	case <-timer.C:
		for _, r := range c.ledger.live() {
			r.stream.Fail(mcp.DropWriteTimeout)
		}
	}
}
