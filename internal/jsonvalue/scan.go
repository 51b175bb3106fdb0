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

// SkipValue skips any value of a valid text. In another text it may end anywhere, or report false.
func SkipValue(b []byte, i int) (end int, ok bool) {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			if i, ok = skipText(b, i); !ok {
				return i, false
			}
		case '[', '{':
			depth++
			i++
			continue
		case ']', '}':
			depth--
			i++
		default:
			if depth == 0 {
				end = SkipWord(b, i)
				return end, end > i
			}
			i++
			continue
		}
		if depth <= 0 {
			return i, true
		}
	}
	return i, false
}

// skipText is [SkipString] for texts most of which are short, for which that takes twice as long.
func skipText(b []byte, first int) (int, bool) {
	if first >= len(b) || b[first] != '"' {
		return first, false
	}
	for i := first + 1; i < min(len(b), first+24); i++ {
		switch b[i] {
		case '"':
			return i + 1, true
		case '\\':
			i++
		}
	}
	return SkipString(b, first)
}
