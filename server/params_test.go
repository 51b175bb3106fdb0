package server_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

func TestParamHeaders(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x", InputSchema: jsontext.Value(`{"type":"object","properties":{
		"s":{"type":"string","x-mcp-header":"Region"},"free":{},
		"in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"max-n"},"b":{"type":"boolean","x-mcp-header":"B"}}}}}`)},
		func(context.Context, *server.Call, map[string]any) (string, error) { return "ok", nil })
	url := listen(t, srv)
	const region, n, b = "Mcp-Param-Region", "Mcp-Param-Max-N", "Mcp-Param-B"
	for _, tt := range []struct {
		name, arguments string
		headers         []string
		fault           string // "" is served
	}{
		{"none", `{}`, nil, ""},
		{"no arguments header for a null", `{"s":null}`, nil, "null"},
		{"equal", `{"free":[{"s":1}],"s":"eu","in":{"n":42,"b":true}}`, []string{region + ": eu", n + ": 42", b + ": true"}, ""},
		{"missing", `{"s":"eu"}`, nil, region + " is missing"},
		{"missing below", `{"in":{"n":0}}`, nil, n + " is missing"},
		{"empty value, no header", `{"s":""}`, nil, region + " is missing"},
		{"empty value", `{"s":""}`, []string{region + ": "}, ""},
		{"other", `{"s":"eu"}`, []string{region + ": us"}, region + " differs from the body"},
		{"other case", `{"s":"eu"}`, []string{region + ": EU"}, region + " differs from the body"},
		{"header name in another case", `{"s":"eu"}`, []string{"mcp-param-REGION: eu"}, ""},
		{"twice", `{"s":"eu"}`, []string{region + "! eu", region + "! eu"}, region + " is given more than once"},
		{"base64", `{"s":"Zürich"}`, []string{region + ": =?base64?WsO8cmljaA==?="}, ""},
		{"bad base64", `{"s":"eu"}`, []string{region + ": =?base64?!?="}, region + " is not valid base64"},
		{"escaped", `{"\u0073":"\u0065u"}`, []string{region + ": eu"}, ""},
		{"same number", `{"in":{"n":42.0}}`, []string{n + ": 42"}, ""},
		{"same number, other way", `{"in":{"n":42}}`, []string{n + ": 4.20e1"}, ""},
		{"large numbers differ in their last digit", `{"in":{"n":9007199254740993}}`, []string{n + ": 9007199254740992"}, n + " differs from the body"},
		{"huge exponent", `{"in":{"n":1}}`, []string{n + ": 1e999999999"}, n + " differs from the body"},
		{"fraction syntax", `{"in":{"n":2}}`, []string{n + ": 4/2"}, n + " differs from the body"},
		{"boolean", `{"in":{"b":false}}`, []string{b + ": true"}, b + " differs from the body"},
		{"boolean in words", `{"in":{"b":true}}`, []string{b + ": True"}, b + " differs from the body"},
		{"without an argument", `{}`, []string{region + ": us"}, region + " has no argument in the body"},
		{"with a null", `{"s":null}`, []string{region + ": us"}, region + " has no argument in the body"},
		{"unknown", `{}`, []string{"Mcp-Param-Else: us", "Mcp-Param-Free: 1"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, got := exchange(t, "POST", url, modern(1, "tools/call", call("x", tt.arguments)), append([]string{
				"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: x"}, tt.headers...)...)
			switch tt.fault {
			case "":
				require.Contains(t, got, `"text":"ok"`)
			case "null":
				require.Contains(t, got, "/s: must be a string, got null", "the schema's business")
			default:
				require.Equal(t, http.StatusBadRequest, res.StatusCode)
				require.JSONEq(t, failure(1, -32020, tt.fault), got)
			}
		})
	}

	// Without HTTP there is nothing to compare.
	require.Contains(t, dial(t, srv).ask(modern(1, "tools/call", call("x", `{"s":"eu"}`))), `"text":"ok"`)
	p := dial(t, srv)
	p.initialize("2025-11-25")
	require.Contains(t, p.ask(legacy(1, "tools/call", call("x", `{"s":"eu"}`))), `"text":"ok"`)
}

func TestCursorsThatWereNotIssued(t *testing.T) {
	p := dial(t, newServer(t))
	for _, good := range []string{"", `"cursor":""`, `"cursor":null`} {
		require.Contains(t, p.ask(modern(1, "tools/list", good)), `"tools":[]`)
	}
	unknown := failure(1, -32602, "params.cursor is none that this server has issued")
	require.JSONEq(t, unknown, p.ask(modern(1, "tools/list", `"cursor":"abc"`)))
	require.JSONEq(t, failure(1, -32602, "params.cursor must be a string"), p.ask(modern(1, "tools/list", `"cursor":7`)))
	p.initialize("2025-11-25")
	require.JSONEq(t, unknown, p.ask(legacy(1, "tools/list", `"cursor":"abc"`)))
	require.Contains(t, p.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), `"tools":[]`)
}
