package telemetry

import (
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Fate is what became of an answer.
type Fate string

const (
	// FateUnknown: the answer was handed over, and the server does not know more. It counts
	// as sent.
	FateUnknown Fate = ""
	FateSent    Fate = "sent"    // handed to the kernel: not a proof that it was read
	FateStored  Fate = "stored"  // kept for replay
	FateDropped Fate = "dropped" // see Outcome.Dropped
)

// An Outcome is how an operation ended. The zero value is a success.
type Outcome struct {
	// Rejected is set if the request was not admitted.
	Rejected mcp.RejectReason
	// Err is the error that the caller is answered with.
	Err *mcp.Error
	// ToolError tells that the answer is a result with isError; see also [Operation.Result].
	ToolError bool
	// Fate is what became of the answer, and Dropped why it was not sent.
	Fate    Fate
	Dropped mcp.DropReason
	// Cancelled is set if the context of the operation was cancelled; by default it is what
	// [Operation.Cancelled] was told.
	Cancelled *mcp.CancelError
	// SubscriptionEnd is why a subscription has ended.
	SubscriptionEnd mcp.SubscriptionEnd
	// TaskStatus is how a task has ended.
	TaskStatus mcp.TaskStatus
	// RequestBytes is [Info.Bytes], by default. AnswerBytes is the size of the answer, or 0 if
	// there is none.
	RequestBytes, AnswerBytes int

	// What follows is counted from the arrival of the message (of a task, from its
	// beginning), and only given by a server whose operations have an [Info.Origin]. For others the
	// operation takes the time itself.

	// Started is when the handler was called, Returned when it returned; 0 is never.
	Started, Returned time.Duration
	// Settled is when the outcome was decided, CancelledAfter when the context was cancelled,
	// Acknowledged when a subscription was; 0 is never.
	Settled, CancelledAfter, Acknowledged time.Duration
	// Blocked is how long the handler waited for its client, in all.
	Blocked time.Duration
}

// cause returns why the operation was cancelled, or "".
func (o *Outcome) cause() mcp.Cause {
	if o.Cancelled == nil {
		return ""
	}
	return o.Cancelled.Cause
}
