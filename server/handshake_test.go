package server_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

const caps = `{"logging":{},"tools":{"listChanged":true}}`

func TestDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := dial(t, newServer(t, server.WithInstructions("ask nicely")))
		require.JSONEq(t, result(1, `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],
			"capabilities":`+caps+`,"instructions":"ask nicely","ttlMs":0,"cacheScope":"public",`+serverMeta),
			p.ask(modern(1, "server/discover", "")))
	})
}

func TestServerInfoIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithTitle("The <Test>"), server.WithDescription("tests"),
			server.WithWebsiteURL("https://example.com"), server.WithIcons(mcp.Icon{Src: "data:,", Sizes: []string{"16x16"}}))
		info := `{"name":"test","version":"1","title":"The <Test>","description":"tests",
			"websiteUrl":"https://example.com","icons":[{"src":"data:,","sizes":["16x16"]}]}`
		require.Equal(t, "The <Test>", srv.Info().Title)
		p := dial(t, srv)
		require.JSONEq(t, result(1, `"tools":[],"ttlMs":0,"cacheScope":"public","resultType":"complete",
			"_meta":{"io.modelcontextprotocol/serverInfo":`+info+`}`), p.ask(modern(1, "tools/list", "")))
		require.JSONEq(t, result(2, `"protocolVersion":"2025-11-25","capabilities":`+caps+`,"serverInfo":`+info),
			p.ask(legacy(2, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)))
	})
}

func TestInitializeNegotiatesTheVersion(t *testing.T) {
	for _, tt := range []struct{ asked, want string }{
		{"2025-11-25", "2025-11-25"},
		{"2025-06-18", "2025-06-18"},
		{"2025-03-26", "2025-03-26"},
		{"2024-11-05", "2024-11-05"},
		{"2026-07-28", "2025-11-25"}, // a modern revision has no handshake
		{"2031-01-01", "2025-11-25"},
		{"", "2025-11-25"},
		{"banana", "2025-11-25"},
	} {
		t.Run(tt.asked, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := dial(t, newServer(t, server.WithInstructions("hello")))
				require.JSONEq(t, result(1, `"protocolVersion":"`+tt.want+`","capabilities":`+caps+`,
					"serverInfo":{"name":"test","version":"1"},"instructions":"hello"`),
					p.ask(legacy(1, "initialize", `"protocolVersion":"`+tt.asked+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)))
			})
		})
	}
}

func TestInitializeFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := dial(t, newServer(t))
		require.JSONEq(t, failure(1, -32602, "the params of initialize are not valid"),
			p.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}`))
		require.JSONEq(t, failure(2, -32602, "the params of initialize are not valid"),
			p.ask(`{"jsonrpc":"2.0","id":2,"method":"initialize"}`))
		p.initialize("2025-06-18")
		require.JSONEq(t, failure(3, -32600, "the session is initialized already"),
			p.ask(legacy(3, "initialize", `"protocolVersion":"2025-06-18"`)))
	})
}

// Which methods each era has before and after the handshake.
func TestMethodsOfTheEras(t *testing.T) {
	srvList := `"tools":[{"name":"hi","inputSchema":{"type":"object","additionalProperties":false}}]`
	notFound := func(method string) string {
		return failure(1, -32601, `there is no method "`+method+`" in this protocol version`)
	}
	unknown := func(method string) string { return failure(1, -32601, `there is no method "`+method+`"`) }
	const notInitialized = "the session is not initialized: begin with initialize, or send each request as revision 2026-07-28 has it, " +
		"with io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities in params._meta"
	for _, tt := range []struct {
		name, method, params string
		modern               string // the answer to a modern request
		before, after        string // the answers to a legacy one, before and after initialize
	}{
		{name: "ping", method: "ping", modern: notFound("ping"), before: result(1, ""), after: result(1, "")},
		{name: "list", method: "tools/list", modern: result(1, srvList+`,"ttlMs":0,"cacheScope":"public",`+serverMeta),
			before: failure(1, -32600, notInitialized), after: result(1, srvList)},
		{name: "call", method: "tools/call", params: call("hi", `{}`),
			modern: result(1, `"content":[{"type":"text","text":"hello"}],`+serverMeta),
			before: failure(1, -32600, notInitialized), after: result(1, `"content":[{"type":"text","text":"hello"}]`)},
		{name: "discover", method: "server/discover", modern: "-",
			before: failure(1, -32600, notInitialized), after: notFound("server/discover")},
		{name: "initialize", method: "initialize", modern: notFound("initialize"), before: "-",
			after: failure(1, -32602, "the params of initialize are not valid")},
		{name: "unknown", method: "no/such", modern: unknown("no/such"), before: unknown("no/such"), after: unknown("no/such")},
		{name: "setLevel", method: "logging/setLevel", params: `"level":"debug"`, modern: notFound("logging/setLevel"),
			before: failure(1, -32600, notInitialized), after: result(1, "")},
		{name: "subscribe", method: "resources/subscribe", modern: notFound("resources/subscribe"),
			before: failure(1, -32600, notInitialized), after: failure(1, -32601, `the server has nothing for "resources/subscribe"`)},
		{name: "unsubscribe", method: "resources/unsubscribe", modern: notFound("resources/unsubscribe"),
			before: failure(1, -32600, notInitialized), after: failure(1, -32601, `the server has nothing for "resources/unsubscribe"`)},
		{name: "case", method: "Tools/List", modern: unknown("Tools/List"), before: unknown("Tools/List"), after: unknown("Tools/List")},
		{name: "a notification's name", method: "notifications/initialized", modern: unknown("notifications/initialized"),
			before: unknown("notifications/initialized"), after: unknown("notifications/initialized")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(t)
				server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
				p := dial(t, srv)
				expect := func(want, got string) {
					t.Helper()
					if want != "-" {
						require.JSONEq(t, want, got)
					}
				}
				expect(tt.modern, p.ask(modern(1, tt.method, tt.params)))
				if tt.before != "-" {
					expect(tt.before, p.ask(legacy(1, tt.method, tt.params)))
				}
				p.initialize("2025-11-25")
				// An initialized pipe goes on to serve modern requests.
				expect(tt.modern, p.ask(modern(1, tt.method, tt.params)))
				if tt.name == "initialize" {
					tt.after = failure(1, -32602, "the params of initialize are not valid")
					expect(tt.after, p.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":[]}}`))
					return
				}
				expect(tt.after, p.ask(legacy(1, tt.method, tt.params)))
			})
		})
	}
}

// The bytes of a legacy ping matter: some clients compare them.
func TestPingIsExactlyEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := dial(t, newServer(t))
		require.Equal(t, `{"jsonrpc":"2.0","id":"p","result":{}}`, p.ask(`{"jsonrpc":"2.0","id":"p","method":"ping"}`))
	})
}

func TestUnsupportedVersion(t *testing.T) {
	data := func(requested string) string {
		return `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported protocol version",
			"data":{"supported":["2026-07-28"],"requested":"` + requested + `"}}}`
	}
	const clientCaps = `"io.modelcontextprotocol/clientCapabilities":{}`
	for _, tt := range []struct{ name, method, version, want string }{
		{"future", "tools/list", "2031-01-01", data("2031-01-01")},
		{"legacy revision in a modern envelope", "tools/list", "2025-11-25", data("2025-11-25")},
		{"discover", "server/discover", "v999", data("v999")},
		{"before the method", "no/such", "v999", data("v999")},
		{"removed method", "ping", "v999", data("v999")},
		{"empty", "tools/list", "", data("")},
		{"long", "tools/list", strings.Repeat("x", 1000), data(strings.Repeat("x", 64))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := dial(t, newServer(t))
				require.JSONEq(t, tt.want, p.ask(legacy(1, tt.method,
					`"_meta":{"io.modelcontextprotocol/protocolVersion":"`+tt.version+`",`+clientCaps+`}`)))
			})
		})
	}
}

func TestModernMetadataIsRequired(t *testing.T) {
	const version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	for _, tt := range []struct{ name, meta, message string }{
		{"no capabilities", version, "params._meta: io.modelcontextprotocol/clientCapabilities is missing"},
		{"capabilities of a wrong type", version + `,"io.modelcontextprotocol/clientCapabilities":[]`,
			"params._meta: io.modelcontextprotocol/clientCapabilities must be an object"},
		{"version of a wrong type", `"io.modelcontextprotocol/protocolVersion":1,"io.modelcontextprotocol/clientCapabilities":{}`,
			"params._meta: io.modelcontextprotocol/protocolVersion must be a string"},
		{"everything", `"io.modelcontextprotocol/protocolVersion":1,"progressToken":true`,
			"params._meta: io.modelcontextprotocol/protocolVersion must be a string; " +
				"io.modelcontextprotocol/clientCapabilities is missing; progressToken must be a string or an integer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := dial(t, newServer(t))
				require.JSONEq(t, failure(1, -32602, tt.message), p.ask(legacy(1, "tools/list", `"_meta":{`+tt.meta+`}`)))
			})
		})
	}
}

// Both eras share one pipe, in any order, and neither sees the other's state.
func TestBothErasOnOnePipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
		p := dial(t, srv)
		block := `"content":[{"type":"text","text":"hello"}]`
		ask := func() {
			t.Helper()
			require.JSONEq(t, result(7, block+`,`+serverMeta), p.ask(modern(7, "tools/call", call("hi", `{}`))))
		}
		ask()
		p.initialize("2025-03-26")
		require.JSONEq(t, result("a", block), p.ask(legacy("a", "tools/call", call("hi", `{}`))))
		ask()
		require.JSONEq(t, result("a", block), p.ask(legacy("a", "tools/call", call("hi", `{}`))))
		require.Equal(t, `{"jsonrpc":"2.0","id":1.0,"result":{}}`, p.ask(`{"jsonrpc":"2.0","id":1.0,"method":"ping"}`))
	})
}
