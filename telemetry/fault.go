package telemetry

import (
	"strconv"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An outcome is all that decides whether a request counts as an error of the
// service.
type outcome struct {
	reject    mcp.RejectReason // if it was not admitted
	cause     mcp.Cause        // if its context was cancelled
	err       *mcp.Error       // if the answer is a JSON-RPC error
	toolError bool             // if the answer is a result with isError
	fate      session.Fate
	drop      mcp.DropReason // if the answer was dropped
}

// Values of error.type that are neither a code nor a cause.
const (
	errorTool         = "tool_error"
	errorWriteTimeout = string(mcp.DropWriteTimeout)
)

// errorType returns the value of error.type, and "" for a success or a fault of
// the caller. What the caller did to the request (a bad request, a cancellation,
// hanging up) is no error of the service; what we did to it is one, whatever the
// handler made of it.
func (o *outcome) errorType() string {
	switch {
	case o.reject != "":
		if o.reject.CallerFault() {
			return ""
		}
		return codeString(o.err.Code)
	case o.cause != "":
		if o.cause.Fault() {
			return string(o.cause)
		}
		return ""
	case o.err != nil:
		if !o.err.Code.CallerFault() {
			return codeString(o.err.Code)
		}
	case o.toolError:
		return errorTool
	}
	if o.fate == session.FateDropped && o.drop == mcp.DropWriteTimeout {
		return errorWriteTimeout
	}
	return ""
}

// knownCodes lists the error codes of JSON-RPC and of MCP.
func knownCodes() []mcp.Code {
	return []mcp.Code{
		mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeInvalidParams,
		mcp.CodeInternalError, mcp.CodeHeaderMismatch, mcp.CodeMissingRequiredCapability,
		mcp.CodeUnsupportedVersion, mcp.CodeResourceNotFound, mcp.CodeRequestCancelled,
		mcp.CodeURLElicitationRequired,
	}
}

// other is the value of a label whose real value is not in its closed set.
const other = "_OTHER"

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

// codeLabel returns the code as a label value of a closed set, without allocating.
func codeLabel(c mcp.Code) string {
	switch c {
	case mcp.CodeParseError:
		return "-32700"
	case mcp.CodeInvalidRequest:
		return "-32600"
	case mcp.CodeMethodNotFound:
		return "-32601"
	case mcp.CodeInvalidParams:
		return "-32602"
	case mcp.CodeInternalError:
		return "-32603"
	case mcp.CodeHeaderMismatch:
		return "-32020"
	case mcp.CodeMissingRequiredCapability:
		return "-32021"
	case mcp.CodeUnsupportedVersion:
		return "-32022"
	case mcp.CodeResourceNotFound:
		return "-32002"
	case mcp.CodeRequestCancelled:
		return "-32800"
	case mcp.CodeURLElicitationRequired:
		return "-32042"
	}
	return other
}

// errorLabel bounds an error.type: a code that is not ours becomes "_OTHER".
func (o *outcome) errorLabel(errorType string) string {
	if o.err != nil && errorType != "" && errorType == codeString(o.err.Code) {
		return codeLabel(o.err.Code)
	}
	return errorType
}
