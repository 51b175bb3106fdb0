package server

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// cut returns a peer's text for an error message: printable, with at most limit bytes.
func cut(s string, limit int) string { return logline.Printable(s, limit) }

// maxName is the greatest length in bytes of a name that checkName accepts.
const maxName = 128

// checkName returns an error for a name that is empty, too long or not printable. Names are values of labels of metrics,
// which must be UTF-8.
func checkName(kind, name string) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case name == "" || len(name) > maxName:
		return fmt.Errorf("%s %q: the name must have 1 to %d bytes", kind, cut(name, maxName), maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable):
		return fmt.Errorf("%s %q: the name has a character that cannot be printed", kind, name)
	}
	return nil
}

// must panics on a mistake in a definition.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
