// Package logline keeps log lines safe to print and few.
package logline

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable makes a peer's text fit for a log line or an attribute: it returns at most limit
// bytes of it, with the characters of [Deceptive] replaced. The text that it returns does not keep a
// longer one alive: spans and records hold it for long.
func Printable(s string, limit int) string {
	if len(s) > limit {
		s = strings.Clone(strings.ToValidUTF8(s[:limit], ""))
	}
	if plain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if Deceptive(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// plain reports whether a text has only characters of ASCII that are printed.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Deceptive reports whether a character has no shape of its own: a control character, one that
// changes the direction or the joining of others, one that ends a line, and all others that are
// invisible. A text with such characters can look like another text.
func Deceptive(r rune) bool {
	if ' ' <= r && r <= '~' {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// Text returns a writer of text with lines and tabs to w that replaces the characters of
// [Deceptive].
func Text(w io.Writer) io.Writer {
	return replacing{w, func(r rune) bool { return r != '\n' && r != '\t' && Deceptive(r) },
		func(dst []byte, _ rune) []byte { return utf8.AppendRune(dst, unicode.ReplacementChar) }}
}

// JSON returns a writer of JSON to w that escapes the characters of [Deceptive]. JSON has them in
// strings only, so that a decoder reads the same values.
func JSON(w io.Writer) io.Writer {
	return replacing{w, func(r rune) bool { return r >= utf8.RuneSelf && Deceptive(r) }, appendEscape}
}

// A replacing writer replaces characters. Each call of Write must have whole characters.
type replacing struct {
	w       io.Writer
	bad     func(rune) bool
	replace func(dst []byte, r rune) []byte
}

// Write implements io.Writer.
func (w replacing) Write(p []byte) (int, error) {
	if bytes.IndexFunc(p, w.bad) < 0 {
		return w.w.Write(p)
	}
	var out []byte
	for rest := p; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if w.bad(r) {
			out = w.replace(out, r)
		} else {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// appendEscape appends the JSON escape of a character, two for one beyond U+FFFF.
func appendEscape(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	units := []rune{r}
	if first, second := utf16.EncodeRune(r); first != unicode.ReplacementChar {
		units = []rune{first, second}
	}
	for _, u := range units {
		dst = append(dst, '\\', 'u', digits[u>>12&15], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	return dst
}
