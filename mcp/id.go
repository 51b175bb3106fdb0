package mcp

import (
	"errors"
	"strconv"
	"strings"
)

// An ID is a JSON-RPC request id: a string or an integer. The zero ID is "no
// id", as a notification has none; an id of 0 or "" is not the zero ID.
//
// IDs are comparable and may be map keys after [ID.Key]: 1, 1.0 and 1e0 have one
// key, while 1 and "1" have two. The bytes that came from the wire are kept, so
// an answer echoes the id as the peer wrote it.
type ID struct {
	raw string // as on the wire
	key string // canonical digits, or the quoted canonical string
}

// maxIDDigits bounds the digits of an integer id, so that 1e999999999 costs nothing.
const maxIDDigits = 64

// ErrBadID is returned by [ParseID] for anything that is not a string or an integer.
var ErrBadID = errors.New("mcp: a request id must be a string or an integer")

// IntID returns the ID of an integer.
func IntID(n int64) ID {
	s := strconv.FormatInt(n, 10)
	return ID{raw: s, key: s}
}

// StringID returns the ID of a string. Bytes that are not UTF-8 become U+FFFD,
// because JSON has no other way to write them.
func StringID(s string) ID {
	q := quote(strings.ToValidUTF8(s, "\uFFFD"))
	return ID{raw: q, key: q}
}

// ParseID reads an id from one JSON value, which must be valid JSON without
// surrounding space. unquoted is the decoded text when the value is a string and
// is ignored otherwise. It returns [ErrBadID] for null, booleans, fractions,
// arrays, objects, and integers of more than 64 digits.
func ParseID(raw, unquoted string) (ID, error) {
	if raw == "" {
		return ID{}, ErrBadID
	}
	switch c := raw[0]; {
	case c == '"':
		if q := quote(unquoted); q != raw {
			return ID{raw: raw, key: q}, nil
		}
		return ID{raw: raw, key: raw}, nil
	case c == '-' || c >= '0' && c <= '9':
		key, ok := canonicalInteger(raw)
		if !ok {
			return ID{}, ErrBadID
		}
		return ID{raw: raw, key: key}, nil
	}
	return ID{}, ErrBadID
}

// IsZero reports whether id is "no id".
func (id ID) IsZero() bool { return id.raw == "" }

// Raw returns the id as JSON, in the bytes in which it arrived.
func (id ID) Raw() string { return id.raw }

// Key returns the form to compare: equal for ids that are the same id.
func (id ID) Key() string { return id.key }

// String returns a string id without its quotes and an integer id as decimal
// digits, for logs and span attributes.
func (id ID) String() string {
	if strings.HasPrefix(id.key, `"`) {
		if s, err := strconv.Unquote(id.key); err == nil {
			return s
		}
	}
	return id.key
}

// MarshalJSON returns the id as it arrived, or null for the zero ID.
func (id ID) MarshalJSON() ([]byte, error) {
	if id.IsZero() {
		return []byte("null"), nil
	}
	return []byte(id.raw), nil
}

// quote returns s as a JSON string in which everything unusual is escaped, so
// that one text has one form.
func quote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == '"' || r == '\\' }) {
		return `"` + s + `"`
	}
	const hex = "0123456789abcdef"
	b := make([]byte, 0, len(s)+8)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

// canonicalInteger returns the decimal digits of a JSON number when its value is
// an integer: "1.0" and "10e-1" give "1".
func canonicalInteger(raw string) (string, bool) {
	if plainInteger(raw) {
		return raw, true
	}
	neg := strings.HasPrefix(raw, "-")
	mantissa, exponent := strings.TrimPrefix(raw, "-"), 0
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		e, err := strconv.ParseInt(mantissa[i+1:], 10, 31) // 31, so that the sums below fit a 32-bit int
		if err != nil {
			return "", false
		}
		mantissa, exponent = mantissa[:i], int(e)
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+frac, "0")
	exponent -= len(frac)
	if digits == "" {
		return "0", true
	}
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if exponent < 0 || len(trimmed)+exponent > maxIDDigits {
		return "", false
	}
	digits = trimmed + strings.Repeat("0", exponent)
	if neg {
		digits = "-" + digits
	}
	return digits, true
}

// plainInteger reports whether raw is already canonical, which is the usual case. The plain version reads
// every number as canonicalInteger does, which takes 1 % more instructions for a whole call.
func plainInteger(raw string) bool {
	digits := strings.TrimPrefix(raw, "-")
	if len(digits) > maxIDDigits || digits == "" || digits[0] == '0' && raw != "0" {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}
