package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Malformed counts a frame that is no message and, if it is to be answered,
// queues the answer on st. nullID is for clients whose revision wants an id of null
// where none could be read. The attributes name the sender in the log.
func (c *Core) Malformed(err *wire.Error, st *stream.Stream, nullID bool, sender ...any) {
	if reason, answer := c.countMalformed(err, sender...); answer {
		st.RejectFrame(malformedAnswer(err, reason, nullID))
	}
}

// malformed says how a frame that is no message is counted: as rejected or ignored, and which
// limit was reached.
var malformed = map[wire.Reason]struct {
	reject mcp.RejectReason
	ignore mcp.IgnoreReason
	limit  string
}{
	wire.ReasonParseError:    {reject: mcp.RejectParseError},
	wire.ReasonTooLarge:      {reject: mcp.RejectTooLarge, limit: limits.NameFrameBytes},
	wire.ReasonTooDeep:       {ignore: mcp.IgnoreTooDeep, limit: limits.NameDepth},
	wire.ReasonInvalidUTF8:   {ignore: mcp.IgnoreInvalidUTF8},
	wire.ReasonBatch:         {ignore: mcp.IgnoreBatch},
	wire.ReasonBatchTooLarge: {ignore: mcp.IgnoreBatch, limit: limits.NameBatch},
}

// countMalformed counts a frame that is no message. It returns the reason if it
// counts as rejected, and whether it may be answered.
func (c *Core) countMalformed(err *wire.Error, sender ...any) (reject mcp.RejectReason, answer bool) {
	c.logMalformed(err.Reason, err.Message, sender)
	if err.Kind == wire.Response {
		c.ledger.ignored(receivedResponse, mcp.IgnoredResponse, mcp.IgnoreMalformed)
		return "", false
	}
	count, known := malformed[err.Reason]
	if !known {
		count.ignore = mcp.IgnoreNotJSONRPC
	}
	if count.limit != "" {
		c.ledger.limitReached(count.limit)
	}
	if count.reject != "" {
		c.ledger.rejected(receivedInvalid, count.reject)
	} else {
		c.ledger.ignored(receivedInvalid, mcp.IgnoredFrame, count.ignore)
	}
	return count.reject, err.Kind != wire.Notification
}

// malformedAnswer answers a frame that is no message, see Malformed.
func malformedAnswer(err *wire.Error, reject mcp.RejectReason, nullID bool) *stream.Message {
	rpc := err.RPC()
	if err.Reason == wire.ReasonBatchTooLarge {
		rpc = rpc.WithData(mcp.ErrorData{Limit: limits.NameBatch})
	}
	m := &stream.Message{Kind: stream.Answer, Frame: wire.AppendError(nil, err.ID, rpc), Err: rpc, Reject: reject, Delivery: stream.Unobserved}
	if err.ID.IsZero() {
		m.Frame = anonymousError(rpc, nullID)
	}
	return m
}

// Malformed counts a frame that is no message and answers it where it can be
// answered. After too many in a row the connection is given up.
func (s *Session) Malformed(err *wire.Error) {
	if answer, _ := s.judge(err, nil); answer != nil {
		s.stream.RejectFrame(answer)
	}
}

// judge counts what is no message and returns the answer to it, or nil. b is the batch
// that it came in, or nil. Over HTTP, where each costs an
// exchange, it is not counted how many come in a row. After the last one the session is closed.
func (s *Session) judge(err *wire.Error, b *batch) (m *stream.Message, last bool) {
	var nullID, silent bool
	s.update(func(st *state) {
		nullID = st.peer.wantsNullID()
		if b.uses(err.ID) || s.stream != nil && st.index[err.ID.Key()] != nil {
			// The answer would resolve the request that rightly has this id.
			anonymous := *err
			anonymous.ID, err = mcp.ID{}, &anonymous
		}
		if s.stream != nil {
			st.malformed++
			last = st.malformed >= s.core.limits.MaxConsecutiveMalformed
			silent = last || err.ID.IsZero() && !st.mayRejectAnonymously(time.Now())
		}
	})
	reason, answer := s.core.countMalformed(err, s.sender()...)
	if answer && !silent {
		m = malformedAnswer(err, reason, nullID)
	}
	if last {
		s.core.ledger.limitReached(limits.NameMalformed)
		s.core.logger.Warn("session.peer_lost", append(s.LogAttrs(), "error", "too many malformed frames in a row")...)
		s.teardown(mcp.CauseTransportError, mcp.DropClosedWriter)
		<-s.done
	}
	return m, last
}

// maxErrorsPerSecond is how many errors without an id a session is sent each second.
const maxErrorsPerSecond = 10

// mayRejectAnonymously reports whether such an error may be sent now.
func (st *state) mayRejectAnonymously(now time.Time) bool {
	if now.Sub(st.errorsSince) >= time.Second {
		st.errorsSince, st.errorsSent = now, 0
	}
	st.errorsSent++
	return st.errorsSent <= maxErrorsPerSecond
}

// MalformedTail counts the rest of a line that the end of the input has cut off, and
// that is no message. It gets no answer: the peer did not finish the
// message.
func (s *Session) MalformedTail(*wire.Error) {
	s.core.ledger.rejected(receivedInvalid, mcp.RejectParseError)
	s.core.logMalformed(wire.ReasonParseError, "the input has ended within it", s.sender())
}

// logMalformed writes the log line of a frame that is no message.
func (c *Core) logMalformed(reason wire.Reason, text string, sender []any) {
	level, silenced := c.senderLevel("frame.malformed", string(reason))
	c.logger.Log(context.Background(), level, "frame.malformed",
		append(sender, "reason", reason, "error", text, silenced)...)
}
