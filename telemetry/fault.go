package telemetry

import (
	"cmp"
	"strconv"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Values of error.type that are neither a code nor a cause.
const (
	errorTool         = "tool_error"
	errorWriteTimeout = string(mcp.DropWriteTimeout)
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

// knownCodes lists the error codes of JSON-RPC, of MCP, and of refusals.
func knownCodes() []mcp.Code {
	return []mcp.Code{
		mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeInvalidParams,
		mcp.CodeInternalError, mcp.CodeHeaderMismatch, mcp.CodeMissingRequiredCapability,
		mcp.CodeUnsupportedVersion, mcp.CodeResourceNotFound, mcp.CodeRequestCancelled,
		mcp.CodeURLElicitationRequired,
		mcp.CodeUnauthorized, mcp.CodeForbidden, mcp.CodeTooManyRequests, mcp.CodeUnavailable,
	}
}

// codeLabels lists the values of rpc_response_status_code.
func codeLabels() []string {
	labels := []string{other}
	for _, c := range knownCodes() {
		labels = append(labels, codeString(c))
	}
	return labels
}

// errorTypes lists the values of error_type.
func errorTypes() []string {
	types := []string{errorTool, errorWriteTimeout, other}
	for _, c := range mcp.Causes() {
		if c.Fault() {
			types = append(types, string(c))
		}
	}
	for _, c := range knownCodes() {
		if !c.CallerFault() {
			types = append(types, codeString(c))
		}
	}
	return types
}

func codeString(c mcp.Code) string { return strconv.Itoa(int(c)) }

// codeTexts are the known codes as label values.
var codeTexts = func() map[mcp.Code]string {
	texts := map[mcp.Code]string{}
	for _, c := range knownCodes() {
		texts[c] = codeString(c)
	}
	return texts
}()

// codeLabel returns the code as a label value of a closed set, without allocating.
func codeLabel(c mcp.Code) string { return cmp.Or(codeTexts[c], other) }

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
