package jsonvalue

import "bytes"

// SkipString skips a string, from its first quote to after its last.
func SkipString(b []byte, i int) (int, bool) {
	if i >= len(b) || b[i] != '"' {
		return i, false
	}
	first := i + 1
	for from := first; ; {
		n := bytes.IndexByte(b[from:], '"')
		if n < 0 {
			return len(b), false
		}
		quote := from + n
		escapes := quote
		for escapes > first && b[escapes-1] == '\\' {
			escapes--
		}
		if (quote-escapes)%2 == 0 {
			return quote + 1, true
		}
		from = quote + 1
	}
}

// SkipWord skips a number or a literal name.
func SkipWord(b []byte, i int) int {
	for i < len(b) && !endsWord[b[i]] {
		i++
	}
	return i
}

// endsWord has the bytes that end a number or a literal name.
var endsWord = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ':': true, '"': true,
	'[': true, ']': true, '{': true, '}': true}

// SkipSpace skips white space.
func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}
