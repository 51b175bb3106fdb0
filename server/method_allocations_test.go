//go:build !race

package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// manyMembers returns short members of about 2 MiB, which no method and no tool has.
func manyMembers() string {
	var b strings.Builder
	for i := range 180_000 {
		fmt.Fprintf(&b, `"%x":0,`, i)
	}
	return b.String()
}

// allocated returns how many bytes a server allocates for a message over HTTP, and its answer.
func allocated(srv *server.Server, message string, headers ...string) (bytes uint64, answer string) {
	h := srv.Handler()
	var before, after runtime.MemStats
	for range 2 { // the first call makes what is kept
		r := httptest.NewRequest("POST", "http://127.0.0.1/mcp", strings.NewReader(message))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		runtime.ReadMemStats(&before)
		h.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		answer = w.Body.String()
	}
	return after.TotalAlloc - before.TotalAlloc, answer
}

// Params with many unknown members do not take many times their size before they are weighed.
func TestUnknownMembersAllocations(t *testing.T) {
	members := manyMembers()
	t.Cleanup(func() { // other tests measure the heap, and pools give up their objects in the second collection
		runtime.GC()
		runtime.GC()
	})
	srv := newServer(t)
	server.AddMethod(srv, server.Method{Name: "x/strict"}, func(_ context.Context, _ *server.Call, in addIn) (addOut, error) {
		return addOut{in.A}, nil
	})
	server.AddTool(srv, server.Tool{Name: "x", InputSchema: jsontext.Value(
		`{"type":"object","properties":{"s":{"type":"string","x-mcp-header":"Region"}},"additionalProperties":false}`)},
		func(context.Context, *server.Call, map[string]any) (string, error) { return "ok", nil })
	t.Run("method", func(t *testing.T) {
		_, meta, _ := strings.Cut(modern(1, "x/strict", ""), `"params":{`)
		message := `{"jsonrpc":"2.0","id":1,"method":"x/strict","params":{` + members + meta // with _meta as the last member
		bytes, answer := allocated(srv, message, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "x/strict")
		require.Contains(t, answer, "unknown property")
		require.Less(t, bytes, uint64(20*len(message)), "for %d bytes", len(message))
	})
	t.Run("Mcp-Param header", func(t *testing.T) {
		message := modern(1, "tools/call", call("x", `{`+members+`"s":"eu"}`))
		bytes, answer := allocated(srv, message, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "x", "Mcp-Param-Region", "us")
		require.Contains(t, answer, "Mcp-Param-Region differs from the body")
		require.Less(t, bytes, uint64(20*len(message)), "for %d bytes", len(message))
	})
}
