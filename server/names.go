package server

import "github.com/vitrine-mcp/vitrine/internal/logline"

// cut shortens a peer's text for an error message.
func cut(s string, limit int) string { return logline.Printable(s, limit) }

// must panics on a mistake in a definition.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
