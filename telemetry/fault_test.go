package telemetry

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestErrorType(t *testing.T) {
	rpc := func(c mcp.Code) *mcp.Error { return mcp.NewError(c, "x") }
	for _, tc := range []struct {
		name string
		out  outcome
		want string
	}{
		{"success", outcome{fate: session.FateSent}, ""},
		{"parse error", outcome{err: rpc(mcp.CodeParseError)}, ""},
		{"invalid request", outcome{err: rpc(mcp.CodeInvalidRequest)}, ""},
		{"unknown method", outcome{err: rpc(mcp.CodeMethodNotFound)}, ""},
		{"invalid params", outcome{err: rpc(mcp.CodeInvalidParams)}, ""},
		{"resource not found", outcome{err: rpc(mcp.CodeResourceNotFound)}, ""},
		{"header mismatch", outcome{err: rpc(mcp.CodeHeaderMismatch)}, ""},
		{"capability", outcome{err: rpc(mcp.CodeMissingRequiredCapability)}, ""},
		{"version", outcome{err: rpc(mcp.CodeUnsupportedVersion)}, ""},
		{"internal", outcome{err: rpc(mcp.CodeInternalError)}, "-32603"},
		{"application", outcome{err: rpc(4711)}, "4711"},
		{"tool error", outcome{toolError: true, fate: session.FateSent}, "tool_error"},

		{"duplicate id", outcome{reject: mcp.RejectDuplicateID, err: rpc(mcp.CodeInvalidRequest)}, ""},
		{"too large", outcome{reject: mcp.RejectTooLarge, err: rpc(mcp.CodeInternalError)}, ""},
		{"overload", outcome{reject: mcp.RejectOverload, err: rpc(mcp.CodeInternalError)}, "-32603"},
		{"shutting down", outcome{reject: mcp.RejectShuttingDown, err: rpc(mcp.CodeInternalError)}, "-32603"},

		{"cancelled", outcome{cause: mcp.CauseClientCancel, fate: session.FateDropped, drop: mcp.DropCancelled}, ""},
		{"cancelled, legacy HTTP", outcome{cause: mcp.CauseClientCancel, err: rpc(mcp.CodeRequestCancelled)}, ""},
		{"cancelled and failed", outcome{cause: mcp.CauseClientCancel, err: rpc(mcp.CodeInternalError)}, ""},
		{"cancelled and tool error", outcome{cause: mcp.CauseClientDisconnect, toolError: true}, ""},
		{"deleted", outcome{cause: mcp.CauseSessionDelete}, ""},
		{"idle", outcome{cause: mcp.CauseSessionIdle}, ""},
		{"deadline", outcome{cause: mcp.CauseDeadline, err: rpc(mcp.CodeInternalError)}, "deadline"},
		{"shutdown", outcome{cause: mcp.CauseServerShutdown, fate: session.FateSent}, "server_shutdown"},
		{"evicted", outcome{cause: mcp.CauseSessionEvicted}, "session_evicted"},
		{"transport close", outcome{cause: mcp.CauseTransportClose}, "transport_close"},
		{"transport error", outcome{cause: mcp.CauseTransportError, drop: mcp.DropWriteTimeout}, "transport_error"},

		{"slow reader", outcome{fate: session.FateDropped, drop: mcp.DropWriteTimeout}, "write_timeout"},
		{"slow reader of the caller's fault",
			outcome{err: rpc(mcp.CodeInvalidParams), fate: session.FateDropped, drop: mcp.DropWriteTimeout}, "write_timeout"},
		{"gone reader", outcome{fate: session.FateDropped, drop: mcp.DropBrokenPeer}, ""},
		{"closed writer", outcome{fate: session.FateDropped, drop: mcp.DropClosedWriter}, ""},
		{"failed, then a slow reader",
			outcome{err: rpc(mcp.CodeInternalError), fate: session.FateDropped, drop: mcp.DropWriteTimeout}, "-32603"},
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
	out := outcome{err: mcp.NewError(-1, "x")}
	require.Equal(t, other, out.errorLabel(out.errorType()))
}
