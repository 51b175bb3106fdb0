package schema

import (
	"bytes"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

const (
	tooLarge = "99999999999999999999" // out of the range of all integer types of Go
	zeros    = "00000000000000000000" // as many
)

// appendInteger appends a number of JSON (RFC 8259, section 6) without fraction and exponent, and reports whether that can be
// done: 2 for 2.0 and 0.2e1. It appends [tooLarge], with the sign, for what has more than 20 digits, because 1e512 would become 513. math/big does the same
// in a multiple of the CPU time (BenchmarkAppendInteger), and a text may have a million such numbers.
func appendInteger(to, number []byte) (text []byte, ok bool) {
	if whole, ok := plainWhole(number); ok {
		return append(to, whole...), true
	}
	at, exponent, ok := evaluate.NumberExponent(number)
	if !ok {
		return to, false
	}
	unsigned, negative := bytes.CutPrefix(number[:at], []byte("-"))
	whole, fraction, cut := bytes.Cut(unsigned, []byte("."))
	if !areDigits(whole) || len(whole) > 1 && whole[0] == '0' || cut && !areDigits(fraction) {
		return to, false
	}
	if !cut && exponent >= 0 && whole[0] != '0' && len(whole)+exponent <= len(tooLarge) {
		return append(append(to, number[:at]...), zeros[:exponent]...), true
	}
	begin := len(to)
	if negative {
		to = append(to, '-')
	}
	first := len(to)
	to = append(append(to, whole...), fraction...)
	point := max(len(whole)+exponent, 0) // digits before the decimal point
	for len(to)-first > point {
		if to[len(to)-1] != '0' {
			return to[:begin], false
		}
		to = to[:len(to)-1]
	}
	missing := point - (len(to) - first)
	switch digits := bytes.TrimLeft(to[first:], "0"); {
	case len(digits) == 0:
		return append(to[:begin], '0'), true
	case len(digits)+missing > len(tooLarge):
		return append(to[:first], tooLarge...), true
	default:
		to = append(to[:first], digits...) // moves them over the zeros
	}
	return append(to, zeros[:missing]...), true
}

// plainWhole returns what stands before the dot of a number such as 12.0, the usual one.
func plainWhole(number []byte) (whole []byte, ok bool) {
	dot := len(number) - len(".0")
	if dot < 1 || number[dot] != '.' || number[dot+1] != '0' || number[0] == '0' || len(number) > len(tooLarge) || !areDigits(number[:dot]) {
		return nil, false
	}
	return number[:dot], true
}

func areDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}
