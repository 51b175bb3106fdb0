package telemetry

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestErrorType(t *testing.T) {
	rpc := func(c mcp.Code) *mcp.Error { return mcp.NewError(c, "x") }
	for _, tc := range []struct {
		name string
		out  Outcome
		want string
	}{
		{"success", Outcome{Fate: FateSent}, ""},
		{"parse error", Outcome{Err: rpc(mcp.CodeParseError)}, ""},
		{"invalid request", Outcome{Err: rpc(mcp.CodeInvalidRequest)}, ""},
		{"unknown method", Outcome{Err: rpc(mcp.CodeMethodNotFound)}, ""},
		{"invalid params", Outcome{Err: rpc(mcp.CodeInvalidParams)}, ""},
		{"resource not found", Outcome{Err: rpc(mcp.CodeResourceNotFound)}, ""},
		{"header mismatch", Outcome{Err: rpc(mcp.CodeHeaderMismatch)}, ""},
		{"capability", Outcome{Err: rpc(mcp.CodeMissingRequiredCapability)}, ""},
		{"version", Outcome{Err: rpc(mcp.CodeUnsupportedVersion)}, ""},
		{"internal", Outcome{Err: rpc(mcp.CodeInternalError)}, "-32603"},
		{"application", Outcome{Err: rpc(4711)}, "4711"},
		{"tool error", Outcome{ToolError: true, Fate: FateSent}, "tool_error"},

		{"duplicate id", Outcome{Rejected: mcp.RejectDuplicateID, Err: rpc(mcp.CodeInvalidRequest)}, ""},
		{"too large", Outcome{Rejected: mcp.RejectTooLarge, Err: rpc(mcp.CodeInternalError)}, ""},
		{"overload", Outcome{Rejected: mcp.RejectOverload, Err: rpc(mcp.CodeInternalError)}, "-32603"},
		{"shutting down", Outcome{Rejected: mcp.RejectShuttingDown, Err: rpc(mcp.CodeInternalError)}, "-32603"},

		{"cancelled", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseClientCancel}, Fate: FateDropped, Dropped: mcp.DropCancelled}, ""},
		{"cancelled, legacy HTTP", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseClientCancel}, Err: rpc(mcp.CodeRequestCancelled)}, ""},
		{"cancelled and failed", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseClientCancel}, Err: rpc(mcp.CodeInternalError)}, ""},
		{"cancelled and tool error", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseClientDisconnect}, ToolError: true}, ""},
		{"deleted", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseSessionDelete}}, ""},
		{"idle", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseSessionIdle}}, ""},
		{"deadline", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseDeadline}, Err: rpc(mcp.CodeInternalError)}, "deadline"},
		{"shutdown", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseServerShutdown}, Fate: FateSent}, "server_shutdown"},
		{"evicted", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseSessionEvicted}}, "session_evicted"},
		{"transport close", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseTransportClose}}, "transport_close"},
		{"transport error", Outcome{Cancelled: &mcp.CancelError{Cause: mcp.CauseTransportError}, Dropped: mcp.DropWriteTimeout}, "transport_error"},

		{"slow reader", Outcome{Fate: FateDropped, Dropped: mcp.DropWriteTimeout}, "write_timeout"},
		{"slow reader of the caller's fault",
			Outcome{Err: rpc(mcp.CodeInvalidParams), Fate: FateDropped, Dropped: mcp.DropWriteTimeout}, "write_timeout"},
		{"gone reader", Outcome{Fate: FateDropped, Dropped: mcp.DropBrokenPeer}, ""},
		{"closed writer", Outcome{Fate: FateDropped, Dropped: mcp.DropClosedWriter}, ""},
		{"failed, then a slow reader",
			Outcome{Err: rpc(mcp.CodeInternalError), Fate: FateDropped, Dropped: mcp.DropWriteTimeout}, "-32603"},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, tc.out.errorType()) })
	}
}

// TestLabelsOfCodes: the fast function agrees with the list, and nothing else passes.
func TestLabelsOfCodes(t *testing.T) {
	for _, c := range knownCodes() {
		require.Equal(t, codeString(c), codeLabel(c))
	}
	require.Equal(t, other, codeLabel(-1))
	out := Outcome{Err: mcp.NewError(-1, "x")}
	require.Equal(t, other, out.errorLabel(out.errorType()))
}
