package server_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The error for a frame without a readable id has no id. For revisions whose schema demands one
// it is null.
func TestErrorsWithoutID(t *testing.T) {
	for version, id := range map[string]string{
		"": "", "2025-11-25": "", "2025-06-18": `"id":null,`, "2025-03-26": `"id":null,`, "2024-11-05": `"id":null,`,
	} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := dial(t, newServer(t))
				if version != "" {
					p.initialize(version)
				}
				for _, bad := range []string{`hello`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`} {
					require.Regexp(t, `^\{"jsonrpc":"2\.0",`+id+`"error":\{"code":-32[67]00,`, p.ask(bad))
				}
				require.Regexp(t, `^\{"jsonrpc":"2\.0","id":7,"error":`, p.ask(`{"jsonrpc":"2.0","id":7,"method":1}`), "its id can be read")
				p.silent()
			})
		})
	}
}
