package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

const tooMuchSaid = `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"what the client says of itself (capabilities and client info) takes more than %d bytes, which is all that max_client_bytes allows","data":{"limit":"max_client_bytes"}}}`

// A session keeps what its client says of itself, so that is bounded by the memory that it takes, and not only by its text.
func TestClientOfASessionIsBounded(t *testing.T) {
	many := strings.Repeat("{},", 4000) // 12 KB
	for name, said := range map[string]string{
		"name":         `"capabilities":{},"clientInfo":{"name":"` + strings.Repeat("n", 16<<10) + `","version":"1"}`,
		"description":  `"capabilities":{},"clientInfo":{"name":"n","version":"1","description":"` + strings.Repeat("n", 1<<20) + `"}`,
		"experimental": `"capabilities":{"experimental":{"a":{"b":[` + many + `{}]}}},"clientInfo":{"name":"n","version":"1"}`,
		"extensions":   `"capabilities":{"extensions":{"a":[` + many + `{}]}},"clientInfo":{"name":"n","version":"1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(t)
				p := dial(t, srv)
				require.JSONEq(t, fmt.Sprintf(tooMuchSaid, 16<<10), p.ask(legacy(1, "initialize", `"protocolVersion":"2025-11-25",`+said)))
				require.EqualValues(t, 1, srv.Core().Snapshot().Counters.LimitsReached["max_client_bytes"])
				p.initialize("2025-11-25") // the connection goes on
			})
		})
	}
}

// Icons are for users, so a client may have large ones, and a session keeps them only if they fit.
func TestLargeIconsOfAClientAreLeftOut(t *testing.T) {
	for size, kept := range map[int]bool{1000: true, 100_000: false} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t)
			server.AddTool(srv, server.Tool{Name: "who"}, func(_ context.Context, call *server.Call, _ struct{}) (string, error) {
				client := call.Client()
				return fmt.Sprint(client.Name, len(client.Icons), call.Capabilities().Experimental), nil
			})
			p := dial(t, srv)
			p.ask(legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"experimental":{"a":{}}},"clientInfo":{"name":"n","version":"1","icons":[{"src":"data:`+strings.Repeat("x", size)+`"}]}`))
			want := "n0 map[a:map[]]"
			if kept {
				want = "n1 map[a:map[]]"
			}
			require.JSONEq(t, result(2, `"content":[{"type":"text","text":"`+want+`"}]`), p.ask(legacy(2, "tools/call", call("who", "{}"))))
		})
	}
}

// Each request of the modern era says who its client is.
func TestClientOfARequestIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithLimits(server.Limits{MaxClientBytes: 1000}))
		p := dial(t, srv)
		for text, refused := range map[string]bool{strings.Repeat("x", 900): false, strings.Repeat("x", 1000): true} {
			for _, said := range []string{`"io.modelcontextprotocol/clientCapabilities":{"experimental":{"a":{"b":"` + text + `"}}}`,
				`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"` + text + `","version":"1"}`} {
				got := p.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + string(mcp.LatestVersion) + `",` + said + `}}}`)
				if refused {
					require.JSONEq(t, fmt.Sprintf(tooMuchSaid, 1000), got)
				} else {
					require.Contains(t, got, `"tools":[`)
				}
			}
		}
		require.EqualValues(t, 2, srv.Core().Snapshot().Counters.LimitsReached["max_client_bytes"])
	})
}
