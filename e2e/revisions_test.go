package e2e

import (
	"slices"
	"testing"
)

// Clients ask for older revisions, with the libraries that can. A client of any revision gets
// what that revision has.
func TestOldRevisions(t *testing.T) {
	for _, library := range []string{"gosdk", "mcpgo"} {
		for _, revision := range []string{"2025-06-18", "2025-03-26", "2024-11-05"} {
			for _, transport := range []string{"http", "stdio"} {
				p := peer{library, revision, transport, revision, "client_cancel"}
				if library == "mcpgo" && transport == "http" {
					p.cause = "session_delete"
				}
				t.Run(library+"/"+revision+"/"+transport, func(t *testing.T) {
					t.Parallel()
					c := connectClient(t, command(t, p.library, p.mode, p.transport), p)
					if c.version != p.version {
						t.Errorf("negotiated %q, want %q", c.version, p.version)
					}
					for _, f := range features {
						check := f.check
						if revision < "2025-06-18" && slices.Contains([]string{"elicitation", "cancel while asking", "rounds"}, f.name) {
							check = checkNoElicitation
						}
						t.Run(f.name, func(t *testing.T) { check(t, c) })
					}
					checkEnd(t, c)
				})
			}
		}
	}
}

// checkNoElicitation checks that the oldest revisions have no elicitation, also if a client declares
// it.
func checkNoElicitation(t *testing.T, c *client) {
	if r := c.ask(t, "test_elicitation", object{"message": "Who are you?"}); r.Result != nil && !r.Result.IsError {
		t.Errorf("test_elicitation: %+v", r.Result)
	}
}
