package wire

import (
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Text is copied in blocks and looked at then. After an escape a block has leastBlock bytes, and each
// next one twice as many, up to mostBlock.
const leastBlock, mostBlock = 16, 256

// longText is the size from which this pays, in bytes.
const longText = 128

// AppendString appends s as a JSON string, with U+FFFD for bytes that are not UTF-8.
//
// The plain version is [jsontext.AppendQuote], which writes the same bytes. It looks at each of them,
// and takes 1.3 to 3 times as long for a large text (BenchmarkAppendString).
func AppendString(dst []byte, s string) []byte {
	dst = slices.Grow(dst, len(s)+2)
	if len(s) < longText || !utf8.ValidString(s) {
		dst, _ = jsontext.AppendQuote(dst, s) // the error only reports the replacement
		return dst
	}
	dst = append(dst, '"')
	for size := mostBlock; len(s) > 0; {
		start := len(dst)
		block := s[:min(len(s), size)]
		dst = append(dst, block...)
		end := plain(dst, start, 0)
		s, size = s[end-start:], min(2*size, mostBlock)
		if end == len(dst) {
			continue
		}
		size, dst = leastBlock, dst[:end]
		for len(s) > 0 && escaped(s[0]) {
			dst, s = appendEscape(dst, s[0]), s[1:]
		}
	}
	return append(dst, '"')
}

// escaped reports whether a byte of a string has an escape.
func escaped(c byte) bool { return c < ' ' || c == '"' || c == '\\' }

// appendEscape appends the escape of such a byte.
func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}
