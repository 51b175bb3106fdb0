package telemetry

import (
	"strconv"

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
	case mcp.CodeUnauthorized:
		return "401"
	case mcp.CodeForbidden:
		return "403"
	case mcp.CodeTooManyRequests:
		return "429"
	case mcp.CodeUnavailable:
		return "503"
	}
	return other
}

// errorLabel bounds an error.type: a code that is not ours becomes "_OTHER".
func (o *Outcome) errorLabel(errorType string) string {
	if o.Err != nil && errorType != "" && errorType == codeString(o.Err.Code) {
		return codeLabel(o.Err.Code)
	}
	return errorType
}
