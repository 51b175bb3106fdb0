package session

import (
	"context"
	"errors"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// watchLife pings the client of a legacy HTTP session while it keeps a stream open,
// if the limits want that. A connection can live on although the program at its
// other end hangs; without this such a session would never be idle.
func (s *Session) watchLife() {
	if s.core.limits.PingInterval > 0 {
		s.core.tasks.start(s.pingLoop)
	}
}

func (s *Session) pingLoop() {
	limits := &s.core.limits
	ticker := time.NewTicker(limits.PingInterval)
	defer ticker.Stop()
	for misses := 0; misses < limits.PingMisses; {
		select {
		case <-s.done:
			return
		case <-ticker.C:
		}
		if !s.streaming() {
			misses = 0
			continue
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), limits.PingInterval, context.DeadlineExceeded)
		_, err := s.Ask(ctx, mcp.MethodPing, nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			misses++
		} else {
			misses = 0 // an answer, even an error, or the stream was lost: neither is a miss
		}
	}
	s.core.logger.Warn("session.unresponsive", append(s.LogAttrs(), "misses", limits.PingMisses)...)
	s.Close(mcp.CauseTransportError) // requests may be in flight, so this is no idle end
}

// streaming reports whether the session's own stream is live.
func (s *Session) streaming() (live bool) {
	s.update(func(st *state) { live = st.standalone != nil && st.standalone.Live() })
	return live
}
