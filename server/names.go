package server

import "github.com/vitrine-mcp/vitrine/internal/logline"

// cut returns a peer's text for an error message: printable, with at most limit bytes.
func cut(s string, limit int) string { return logline.Printable(s, limit) }

// must panics on a mistake in a definition.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
