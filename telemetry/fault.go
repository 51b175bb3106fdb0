package telemetry

import (
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// errorType returns the value of error.type, and "" for a success or a fault of
// the caller. What the caller did to the request (a bad request, a cancellation,
// hanging up) is no error of the service; what we did to it is one, whatever the
// handler made of it.
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
	case o.ToolError:
		return errorTool
	}
	if o.Fate == FateDropped && o.Dropped == mcp.DropWriteTimeout {
		return errorWriteTimeout
	}
	return ""
}

// errorLabel bounds an error.type: a code that is not ours becomes "_OTHER".
func (o *Outcome) errorLabel(errorType string) string {
	if o.Err != nil && errorType != "" && errorType == codeString(o.Err.Code) {
		return codeLabel(o.Err.Code)
	}
	return errorType
}

// setStatus gives a span the status of the outcome.
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
