package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

type order struct {
	Size    string    `json:"size" enum:"small,large" default:"small" title:"Size"`
	Number  int8      `json:"number" default:"1"`
	Extras  []string  `json:"extras,omitempty" enum:"milk,sugar"`
	Mail    string    `json:"mail,omitempty" format:"email" jsonschema:"where to send the bill"`
	When    time.Time `json:"when,omitzero"`
	Price   float64   `json:"price,omitempty"`
	Express bool      `json:"express,omitempty" default:"true"`
}

func TestElicitForm(t *testing.T) {
	const want = `{"type":"object","properties":{` +
		`"size":{"type":"string","title":"Size","enum":["small","large"],"default":"small"},` +
		`"number":{"type":"integer","minimum":-128,"maximum":127,"default":1},` +
		`"extras":{"type":"array","items":{"type":"string","enum":["milk","sugar"]}},` +
		`"mail":{"type":"string","description":"where to send the bill","format":"email"},` +
		`"when":{"type":"string","format":"date-time"},` +
		`"price":{"type":"number"},` +
		`"express":{"type":"boolean","default":true}},"required":["size","number"]}`
	malformed := []string{
		`{"action":"accept","content":{"size":"huge","number":1}}`,
		`{"action":"accept","content":{"size":"small","number":1000}}`,
		`{"action":"accept","content":{"size":"small","number":1,"extras":["salt"]}}`,
		`{"action":"accept","content":{"size":"small","number":1,"mail":"nobody"}}`,
		`{"action":"accept","content":{"size":"small","number":1,"when":"soon"}}`,
		`{"action":"accept","content":{"size":"small"}}`,
	}
	const (
		accept  = `{"action":"accept","content":{"size":"large","number":2.0,"extras":["milk"],"mail":"a@b.example","when":"2026-01-02T03:04:05Z","price":1.5,"unknown":1}}`
		accepts = `accept {large 2 [milk] a@b.example 2026-01-02 03:04:05 +0000 UTC 1.5 false} <nil>`
	)
	for _, tt := range []struct {
		malformed    []string
		answer, want string
	}{
		{malformed[:2], accept, accepts},
		{malformed[2:4], accept, accepts},
		{malformed[4:], accept, accepts},
		{nil, `{"action":"decline"}`, `decline { 0 []  0001-01-01 00:00:00 +0000 UTC 0 false} <nil>`},
		{nil, `{"action":"cancel","content":{"size":"huge"}}`, `cancel { 0 []  0001-01-01 00:00:00 +0000 UTC 0 false} <nil>`},
	} {
		for _, version := range []mcp.Version{mcp.Version20260728, mcp.Version20251125} {
			srv := newServer(t)
			server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
				o, action, err := server.ElicitForm[order](call, "order", "What will it be?")
				if err != nil {
					return "", err
				}
				return fmt.Sprint(action, " ", o, " ", err), nil
			})
			left := tt.malformed
			got := askMemory(t, srv, version, "tools/call", call("t", `{}`), func(q servertest.Question) string {
				var p mcp.ElicitParams
				require.NoError(t, json.Unmarshal(q.Params, &p))
				require.Equal(t, want, string(p.RequestedSchema))
				if len(left) == 0 {
					return tt.answer
				}
				next := left[0]
				left = left[1:]
				return next
			})
			require.Contains(t, got, tt.want)
		}
	}
}
