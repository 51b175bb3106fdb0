package evaluate

import (
	"bytes"
	"strconv"
)

// Bounds on a number's literal. Computing with a number takes time that grows with its digits and
// its exponent. Every float64 and every 64-bit integer is far within the bounds.
const (
	maxNumberLen = 512
	maxExponent  = 512
)

// NumberInBounds reports whether the literal of a JSON number is within the bounds on numbers.
func NumberInBounds(literal []byte) bool {
	_, ok := NumberExponent(literal)
	return ok
}

// NumberExponent returns what the literal of a JSON number has behind its e, and whether it is within the bounds on numbers.
func NumberExponent(literal []byte) (exponent int, ok bool) {
	if len(literal) > maxNumberLen {
		return 0, false
	}
	i := exponentAt(literal)
	if i < 0 {
		return 0, true
	}
	exponent, err := strconv.Atoi(string(literal[i+1:]))
	return exponent, err == nil && exponent >= -maxExponent && exponent <= maxExponent
}

// exponentAt returns where the exponent of a number begins, or -1.
func exponentAt(literal []byte) int {
	for i, c := range literal {
		if c|0x20 == 'e' {
			return i
		}
	}
	return -1
}

// skipNumber reads a number as far as it goes. The caller checks what follows.
func skipNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++ // and no digit after it
	} else if i = skipDigits(b, i); i < 0 {
		return i
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return i
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// skipDigits reads one digit or more.
func skipDigits(b []byte, i int) int {
	start := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func skipLiteral(b []byte, i int, text string) int {
	if !bytes.HasPrefix(b[i:], []byte(text)) {
		return -1
	}
	return i + len(text)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// countEntries returns how many entries a text has, so that a large document is not copied while it
// grows. The text need not be valid.
func countEntries(raw []byte) (n int) {
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case '[', '{':
			n++
			i++
		case ' ', '\t', '\r', '\n', ',', ':', ']', '}':
			i++
		case '"':
			n++
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			i++
		default:
			n++
			for i < len(raw) && !endsWord[raw[i]] {
				i++
			}
		}
	}
	return n + 1
}

// endsWord has the bytes that end a number or a literal name.
var endsWord = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ':': true, '"': true,
	'[': true, ']': true, '{': true, '}': true}
