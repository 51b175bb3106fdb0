package evaluate

import (
	"bytes"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
)

// Bounds on a number's literal. Computing with a number takes time that grows with its digits and
// its exponent. Every float64 and every 64-bit integer is far within the bounds.
const (
	maxNumberLen = 512
	maxExponent  = 512
)

// NumberInBounds reports whether the literal of a JSON number is within the bounds on numbers.
func NumberInBounds(literal []byte) bool {
	_, _, ok := NumberExponent(literal)
	return ok
}

// IsNumber reports whether a text is a number of JSON.
func IsNumber(text []byte) bool { return skipNumber(text, 0) == len(text) }

// NumberExponent returns where the e of the literal of a JSON number is, or its length, what it has behind the e, and whether it is
// within the bounds on numbers.
func NumberExponent(literal []byte) (at, exponent int, ok bool) {
	if len(literal) > maxNumberLen {
		return 0, 0, false
	}
	at = exponentAt(literal)
	if at < 0 {
		return len(literal), 0, true
	}
	exponent, ok = exponentOf(literal[at+1:])
	return at, exponent, ok
}

// exponentOf reads what stands behind an e, and reports whether it is an integer within the bounds. The plain version is [strconv.Atoi],
// which needs a string, and a text may have a million exponents.
func exponentOf(text []byte) (exponent int, ok bool) {
	i := 0
	if len(text) > 1 && (text[0] == '-' || text[0] == '+') {
		i++
	}
	for _, c := range text[i:] {
		if c < '0' || c > '9' || exponent > maxExponent {
			return 0, false
		}
		exponent = exponent*10 + int(c-'0')
	}
	ok = len(text) > 0 && exponent <= maxExponent
	if ok && text[0] == '-' {
		exponent = -exponent
	}
	return exponent, ok
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
			i = jsonvalue.SkipWord(raw, i)
		}
	}
	return n + 1
}
