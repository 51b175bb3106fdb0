package telemetry

import (
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// errorType returns the value of error.type. It is "" for a success and for a fault of the
// caller: a bad request, a cancellation, a lost connection. A cancellation by the server is an
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
	case o.ToolError:
		return errorTool
	}
	if o.Fate == FateDropped && o.Dropped == mcp.DropWriteTimeout {
		return errorWriteTimeout
	}
	return ""
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
