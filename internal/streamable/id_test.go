package streamable_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An error whose request could not be read has the id null for the revisions up to 2025-06-18,
// and no id for the others.
func TestErrorWithoutARequestHasTheIDOfItsRevision(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	for _, tt := range []struct {
		name    string
		version mcp.Version // of the session; "" is no session
		headers []header
		null    bool
	}{
		{"no session, no version", "", nil, true},
		{"no session, 2024-11-05", "", []header{"Mcp-Protocol-Version: 2024-11-05"}, true},
		{"no session, 2025-06-18", "", []header{"Mcp-Protocol-Version: 2025-06-18"}, true},
		{"no session, 2025-11-25", "", []header{"Mcp-Protocol-Version: 2025-11-25"}, false},
		{"no session, modern", "", []header{"Mcp-Protocol-Version: 2026-07-28"}, false},
		{"no session, unknown version", "", []header{"Mcp-Protocol-Version: v999"}, false},
		{"an unknown session", "", []header{"Mcp-Session-Id: nobody"}, true},
		{"2025-03-26", mcp.Version20250326, nil, true},
		{"2025-06-18", mcp.Version20250618, []header{"Mcp-Protocol-Version: 2025-06-18"}, true},
		{"2025-11-25", mcp.Version20251125, []header{"Mcp-Protocol-Version: 2025-11-25"}, false},
		{"2025-11-25, no version", mcp.Version20251125, nil, false},
		{"2025-06-18, another version", mcp.Version20250618, []header{"Mcp-Protocol-Version: 2025-11-25"}, true},
		{"2025-06-18, modern", mcp.Version20250618, []header{"Mcp-Protocol-Version: 2026-07-28"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.t = t
			headers := tt.headers
			if tt.version != "" {
				sid := e.session()
				e.sessionOf(sid).Initialize(&session.Peer{Version: tt.version})
				headers = append(headers, sid)
			}
			id := ""
			if tt.null {
				id = "null"
			}
			for body, want := range map[string]string{
				``:                               failure(id, -32700, "the message is empty"),
				`1`:                              failure(id, -32600, "a message must be an object"),
				`{"jsonrpc":"1.0","method":"x"}`: failure(id, -32600, `member "jsonrpc" must be "2.0"`), // a notification
				`{"jsonrpc":"1.0","id":7,"method":"ping"}`: failure("7", -32600, `member "jsonrpc" must be "2.0"`),
			} {
				res, got := e.post(body, headers...)
				require.Equal(t, 400, res.StatusCode)
				require.JSONEq(t, want, got)
			}
		})
	}
	e.t = t
	e.Conserved()
}
