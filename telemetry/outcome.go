package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Fate says what happened to an answer.
type Fate string

const (
	// FateUnknown: another layer took the answer, and the server does not know more. It counts as
	// sent.
	FateUnknown Fate = ""
	FateSent    Fate = "sent"    // handed to the kernel; the client may not have read it
	FateStored  Fate = "stored"  // stored for replay
	FateDropped Fate = "dropped" // see Outcome.Dropped
)

// An Outcome is how an operation ended. The zero value is a success.
type Outcome struct {
	// Rejected is set if the request was not admitted.
	Rejected mcp.RejectReason
	// Err is the error of the answer.
	Err *mcp.Error
	// ToolError tells that the answer is a result with isError; see also [Operation.Result].
	ToolError bool
	// argumentsRejected tells that the handler was not called because of the arguments.
	argumentsRejected bool
	// callersFault tells that the handler calls its error the caller's fault.
	callersFault bool
	// Fate is what happened to the answer, and Dropped why it was not sent.
	Fate    Fate
	Dropped mcp.DropReason
	// Cancelled is set if the context of the operation was cancelled. The default is the cause of
	// [Operation.Cancelled].
	Cancelled *mcp.CancelError
	// SubscriptionEnd is why a subscription ended.
	SubscriptionEnd mcp.SubscriptionEnd
	// TaskStatus is how a task ended.
	TaskStatus mcp.TaskStatus
	// RequestBytes is the size of the request in bytes; the default is [Info.Bytes]. AnswerBytes
	// is the size of the answer in bytes, or 0 if there is none.
	RequestBytes, AnswerBytes int

	// The times below are counted from the arrival of the message, and for a task from its
	// beginning. Only a server whose operations have an [Info.Origin] sets them. For others the
	// operation measures them.

	// Started is when the handler was called, Returned when it returned; 0 is never.
	Started, Returned time.Duration
	// Settled is when the outcome was decided, CancelledAfter when the context was cancelled,
	// Acknowledged when a subscription was; 0 is never.
	Settled, CancelledAfter, Acknowledged time.Duration
	// SettledIn is the phase in which the outcome was decided: queued, running, blocked or listening.
	// The default is queued before Started, and running after it.
	SettledIn string
	// Streams says that the operation lasts as long as there is something to tell its client, so that it
	// is never slow.
	Streams bool
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

// errorType returns the value of error.type. It is "" for a success and for a fault of the
// caller: a bad request, arguments that break the schema, what the handler calls one, a cancellation, a lost connection. A cancellation by the server is an
// error of the service, whatever the handler returned.
func (o *Outcome) errorType() string {
	switch {
	case o.Rejected != "":
		if o.Rejected.CallerFault() {
			return ""
		}
		if o.Err == nil {
			return other
		}
		return codeString(o.Err.Code)
	case o.Cancelled != nil:
		if o.Cancelled.Cause.Fault() {
			return string(o.Cancelled.Cause)
		}
		return ""
	case o.Err != nil:
		if !mcp.IsCallerFault(o.Err) {
			return codeString(o.Err.Code)
		}
	case o.ToolError && !o.blameless():
		return errorTool
	}
	if o.Fate == FateDropped && o.Dropped == mcp.DropWriteTimeout {
		return errorWriteTimeout
	}
	return ""
}

// blameless reports whether a tool error is the caller's.
func (o *Outcome) blameless() bool { return o.argumentsRejected || o.callersFault }

// givenUp returns the cause for which a request was cancelled without a fault of the service, or "". It is
// the error.type of its duration, so that requests which clients give up do not look like fast answers.
// Spans and the error budget have it as no error.
func (o *Outcome) givenUp() string {
	if o.Cancelled == nil || o.Cancelled.Cause.Fault() {
		return ""
	}
	return string(o.Cancelled.Cause)
}

// errorLabel bounds an error.type. An unknown code becomes "_OTHER".
func (o *Outcome) errorLabel(errorType string) string {
	if o.Err != nil && errorType != "" && errorType == codeString(o.Err.Code) {
		return codeLabel(o.Err.Code)
	}
	return errorType
}

// setStatus sets the status of a span. It leaves the status unset for an empty errorType.
func (o *Outcome) setStatus(span trace.Span, errorType string) {
	if errorType == "" {
		return
	}
	message := ""
	if o.Err != nil {
		message = o.Err.Message
	}
	span.SetStatus(codes.Error, message)
}
