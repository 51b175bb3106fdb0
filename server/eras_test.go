package server_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// Each era alone on a byte stream.
func TestErasOnAByteStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wayIn = "send each request as revision 2026-07-28 has it, with io.modelcontextprotocol/protocolVersion and " +
			"io.modelcontextprotocol/clientCapabilities in params._meta"
		p := dial(t, newServer(t, server.WithEras(mcp.Modern)))
		require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"this server does not serve legacy clients: `+wayIn+`",`+
			`"data":{"supported":["2026-07-28"],"requested":"2025-06-18"}}}`, p.ask(legacy(1, "initialize", `"protocolVersion":"2025-06-18"`)))
		require.Contains(t, p.ask(legacy(2, "tools/list", "")), "does not serve legacy clients")
		require.Contains(t, p.ask(modern(3, "server/discover", "")), `"supportedVersions":["2026-07-28"]`)
		require.Contains(t, p.ask(modern(4, "tools/list", "")), `"tools":[]`)

		p = dial(t, newServer(t, server.WithEras(mcp.Legacy)))
		require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"this server does not serve modern clients: begin with initialize",`+
			`"data":{"supported":["2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2026-07-28"}}}`, p.ask(modern(1, "server/discover", "")))
		require.Contains(t, p.ask(legacy(2, "tools/list", "")), "the session is not initialized: begin with initialize\"")
		p.initialize("2025-11-25")
		require.Contains(t, p.ask(legacy(3, "tools/list", "")), `"tools":[]`)

		p = dial(t, newServer(t, server.WithEras(mcp.Legacy, mcp.Modern)))
		require.Contains(t, p.ask(modern(1, "tools/list", "")), `"tools":[]`)
		p.initialize("2025-11-25")
	})
}
