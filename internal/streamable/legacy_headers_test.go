package streamable_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A proxy may decide by a header. So a header of a legacy message must not say anything else than
// its body, and must not be there twice.
func TestLegacyHeadersAgreeWithTheBody(t *testing.T) {
	const method, name = "Mcp-Method", "Mcp-Name"
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid := e.session()
	call, ping := legacy(1, "tools/call", "echo"), legacy(1, "ping", "x")
	const notification = `{"jsonrpc":"2.0","method":"notifications/x"}`
	refused := uint64(0)
	for _, tt := range []struct {
		name, verb, body string
		headers          []header
		want             string // message of -32020, or "" if the message is served
	}{
		{"no header", "POST", call, nil, ""},
		{"both headers", "POST", call, []header{method + ": tools/call", name + ": echo"}, ""},
		{"base64", "POST", call, []header{name + ": =?base64?ZWNobw==?="}, ""},
		{"a name of a method without names", "POST", ping, []header{name + ": other"}, ""},
		{"method of a notification", "POST", notification, []header{method + ": notifications/x"}, ""},
		{"another method", "POST", call, []header{method + ": tools/list"}, method + " differs from the body"},
		{"method in capitals", "POST", call, []header{method + ": Tools/Call"}, method + " differs from the body"},
		{"another name", "POST", call, []header{method + ": tools/call", name + ": other"}, name + " differs from params.name"},
		{"broken base64", "POST", call, []header{name + ": =?base64?ZWNobw?="}, name + " is not valid base64"},
		{"another method of a notification", "POST", notification, []header{method + ": tools/call"}, method + " differs from the body"},
		{"method of a response", "POST", response, []header{method + ": tools/call"}, method + " differs from the body"},
		{"method twice", "POST", call, []header{method + ": tools/call", method + "! tools/call"}, method + " is given more than once"},
		{"name twice", "POST", call, []header{name + ": echo", name + "! other"}, name + " is given more than once"},
		{"version twice", "POST", call, []header{"Mcp-Protocol-Version: 2025-11-25", "Mcp-Protocol-Version! 2025-06-18"},
			"Mcp-Protocol-Version is given more than once"},
		{"session twice", "POST", call, []header{"Mcp-Session-Id! other"}, "Mcp-Session-Id is given more than once"},
		{"the same session twice", "POST", call, []header{sidAgain(sid)}, "Mcp-Session-Id is given more than once"},
		{"session of a GET twice", "GET", "", []header{"Mcp-Session-Id! other"}, "Mcp-Session-Id is given more than once"},
		{"event of a GET twice", "GET", "", []header{"Last-Event-Id: 1", "Last-Event-Id! 2"}, "Last-Event-Id is given more than once"},
		{"session of a DELETE twice", "DELETE", "", []header{"Mcp-Session-Id! other"}, "Mcp-Session-Id is given more than once"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.t = t
			res, body := e.do(e.request(t.Context(), tt.verb, tt.body, append([]header{sid}, tt.headers...)...))
			if tt.want == "" {
				require.Less(t, res.StatusCode, 300, body)
				return
			}
			refused++
			require.Equal(t, 400, res.StatusCode, body)
			id := ""
			if tt.body == call {
				id = "1"
			}
			require.JSONEq(t, failure(id, -32020, tt.want), body)
		})
	}
	e.t = t
	_, body := e.post(legacy(7, "initialize", ""), method+": tools/list")
	require.JSONEq(t, failure("7", -32020, method+" differs from the body"), body)
	batching := e.batching()
	_, body = e.post(batch(call), batching, method+": tools/call")
	require.JSONEq(t, failure("", -32020, method+" cannot be true of a batch"), body)
	_, body = e.post(batch(call), batching, "Mcp-Session-Id! other")
	require.JSONEq(t, failure("", -32020, "Mcp-Session-Id is given more than once"), body)
	res, _ := e.post(call, sid)
	require.Equal(t, 200, res.StatusCode, "the session is still there")
	require.Equal(t, map[mcp.RefuseReason]uint64{mcp.RefuseHeader: refused + 3}, e.Conserved().ExchangesRefused)
}

// sidAgain returns the header of a session as a second one.
func sidAgain(sid header) header { return "Mcp-Session-Id! " + sid[len("Mcp-Session-Id: "):] }

// Which of two types is meant would depend on the reader.
func TestSecondContentTypeIsRefused(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	res, _ := e.call("echo", "Content-Type! text/plain")
	require.Equal(t, 415, res.StatusCode)
}
