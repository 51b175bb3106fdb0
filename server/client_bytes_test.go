package server_test

import (
	"context"
	"fmt"
	"runtime"
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

// What is not kept is not decoded, also not for the log of a request that was refused.
func TestLargeClientsAreNotDecoded(t *testing.T) {
	many := `[` + strings.Repeat(`{"a":1},`, 50_000) + `{}]`
	for name, tt := range map[string]struct {
		said string
		opts []server.Option
		want string
	}{
		"icons":                {`"capabilities":{},"clientInfo":{"name":"n","version":"1","icons":` + many + `}`, nil, `"protocolVersion":"2025-11-25"`},
		"capabilities":         {`"capabilities":{"experimental":{"a":{"b":` + many + `}}},"clientInfo":{"name":"n","version":"1"}`, nil, "max_client_bytes"},
		"after a large number": {`"_meta":{"n":[1e999]},"capabilities":{"experimental":{"a":{"b":` + many + `}}},"clientInfo":{"name":"n","version":"1"}`, nil, "max_client_bytes"},
		"refused":              {`"capabilities":{"experimental":{"a":{"b":` + many + `}}},"clientInfo":{"name":"n","version":"1"}`, []server.Option{server.WithEras(mcp.Modern)}, "does not serve legacy clients"},
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, newServer(t, tt.opts...))
			text := legacy(1, "initialize", `"protocolVersion":"2025-11-25",`+tt.said)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := p.ask(text)
			runtime.ReadMemStats(&after)
			require.Contains(t, got, tt.want)
			require.Less(t, int(after.TotalAlloc-before.TotalAlloc), 8*len(text))
		})
	}
}

// Of a long list of resources no more are decoded than a subscription may have.
func TestLongListsOfResourcesAreNotDecoded(t *testing.T) {
	for name, list := range map[string]string{"the same": strings.Repeat(`"",`, 100_000) + `""`, "others": distinctURIs(20_000)} {
		p := dial(t, changing(t))
		text := listenTo(1, `{"resourceSubscriptions":[`+list+`]}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := p.ask(text)
		runtime.ReadMemStats(&after)
		if name == "others" {
			require.Contains(t, got, "max_resource_subscriptions")
		} else {
			require.Contains(t, got, "acknowledged")
		}
		require.Less(t, int(after.TotalAlloc-before.TotalAlloc), 8*len(text), name)
	}
}

func distinctURIs(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"test://item/%d"`, i))
	}
	return strings.Join(all, ",")
}
