// Package logline keeps log lines safe to print and few.
package logline

import (
	"strings"
	"unicode"
)

// Printable makes a peer's text fit for a log line or an attribute: it returns at most limit
// bytes of it, with control characters replaced. The text that it returns does not keep a longer
// one alive: spans and records hold it for long.
func Printable(s string, limit int) string {
	if len(s) > limit {
		s = strings.Clone(strings.ToValidUTF8(s[:limit], ""))
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return '\ufffd'
		}
		return r
	}, s)
}
