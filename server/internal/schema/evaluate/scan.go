package evaluate

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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

// string reads a string and returns the offset after it, or a negative number.
func (d *document) string(i int) int {
	if i >= len(d.raw) || d.raw[i] != '"' {
		return -1
	}
	rest, plain := d.raw[i+1:], true
	for n, c := range rest {
		switch {
		case c == '"' && plain:
			return i + n + 2
		case c == '"':
			return d.unusualString(i)
		case c < ' ':
			return -1
		case c == '\\':
			return d.unusualString(i)
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	return -1
}

// unusualString reads a string with escapes or characters outside of ASCII.
func (d *document) unusualString(i int) int {
	end := i + 1
	for ; end < len(d.raw) && d.raw[end] != '"'; end++ {
		if d.raw[end] == '\\' {
			end++
		}
	}
	if end >= len(d.raw) {
		return -1
	}
	quoted := d.raw[i : end+1]
	if bytes.IndexByte(quoted, '\\') < 0 {
		if !utf8.Valid(quoted) || hasControl(quoted) {
			return -1
		}
		return end + 1
	}
	var err error
	if d.scratch, err = jsontext.AppendUnquote(d.scratch[:0], quoted); err != nil {
		return -1
	}
	return end + 1
}

func hasControl(text []byte) bool {
	for _, c := range text {
		if c < ' ' {
			return true
		}
	}
	return false
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
