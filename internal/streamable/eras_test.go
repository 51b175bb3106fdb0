package streamable_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

const (
	modernWayIn = "send each request as revision 2026-07-28 has it, with io.modelcontextprotocol/protocolVersion and " +
		"io.modelcontextprotocol/clientCapabilities in params._meta"
	noLegacy  = "this server does not serve legacy clients: " + modernWayIn
	noModern  = "this server does not serve modern clients: begin with initialize"
	noSession = "method not allowed: messages come by POST, and this server has no sessions"
)

// unserved returns the error for a request of an era that is not served.
func unserved(id string, code int, message, supported, requested string) string {
	text := failure(id, code, message)
	return text[:len(text)-2] + `,"data":{"supported":[` + supported + `],"requested":"` + requested + `"}}}`
}

// A server of the modern era alone names its revisions to legacy clients and opens no sessions.
func TestModernEraAlone(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	e.Core.ServeOnly(mcp.Modern)
	const modernVersions = `"2026-07-28"`
	const initialize = `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`
	for _, step := range []struct {
		name, verb, body string
		headers          []header
		status           int
		want             string
	}{
		{"call", "POST", modern(1, "echo"), modernHeaders("tools/call", "echo"), 200, answer(1, "echo")},
		{"initialize", "POST", initialize, nil, 400, unserved("7", -32022, noLegacy, modernVersions, "2025-06-18")},
		{"call with a session", "POST", legacy(1, "tools/call", "echo"), []header{"Mcp-Session-Id: x", "Mcp-Protocol-Version: 2025-11-25"},
			400, unserved("1", -32022, noLegacy, modernVersions, "2025-11-25")},
		{"call without anything", "POST", legacy(1, "tools/call", "echo"), nil, 400, unserved("1", -32022, noLegacy, modernVersions, "")},
		{"notification", "POST", nothing, nil, 400, unserved("null", -32022, noLegacy, modernVersions, "")},
		{"GET", "GET", "", []header{"Mcp-Session-Id: x"}, 405, failure("", -32600, noSession)},
		{"DELETE", "DELETE", "", []header{"Mcp-Session-Id: x"}, 405, failure("", -32600, noSession)},
		{"batch", "POST", batch(legacy(1, "ping", "x")), []header{"Mcp-Session-Id: x"}, 400, failure("null", -32600, notAnArray)},
	} {
		t.Run(step.name, func(t *testing.T) {
			e.t = t
			res, body := e.do(e.request(t.Context(), step.verb, step.body, step.headers...))
			require.Equal(t, step.status, res.StatusCode, body)
			require.JSONEq(t, step.want, body)
			require.Empty(t, res.Header.Get("Mcp-Session-Id"))
			if step.status == 405 {
				require.Equal(t, "POST", res.Header.Get("Allow"))
			}
		})
	}
	e.t = t
	c := e.Conserved()
	require.EqualValues(t, 4, c.Rejected[mcp.RejectEra])
	require.Empty(t, e.Core.Snapshot().Sessions)
}

// A client of both eras takes the error of a server of the legacy era alone for that of an old
// server, and goes on with initialize.
func TestLegacyEraAlone(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	e.Core.ServeOnly(mcp.Legacy)
	const versions = `"2025-11-25","2025-06-18","2025-03-26","2024-11-05"`
	res, body := e.call("echo")
	require.Equal(t, 400, res.StatusCode)
	require.JSONEq(t, unserved("1", -32600, noModern, versions, "2026-07-28"), body)
	res, body = e.post(legacy(1, "tools/call", "echo"), "Mcp-Protocol-Version: 2031-01-01")
	require.Equal(t, 400, res.StatusCode)
	require.JSONEq(t, unserved("1", -32600, noModern, versions, "2031-01-01"), body)
	_, body = e.post(legacy(1, "tools/call", "echo"))
	require.JSONEq(t, failure("1", -32600, "Mcp-Session-Id is missing: begin with initialize"), body)
	_, body = e.post(legacy(1, "tools/call", "echo"), e.session())
	require.JSONEq(t, answer(1, "echo"), body)
	require.EqualValues(t, 2, e.Conserved().Rejected[mcp.RejectEra])
}
