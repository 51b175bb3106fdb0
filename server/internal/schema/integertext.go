package schema

import (
	"bytes"
	"strconv"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

// tooLarge is out of the range of all integer types of Go.
const tooLarge = "99999999999999999999"

// integerText returns a number of JSON (RFC 8259, section 6) without fraction and exponent, and reports whether that can be
// done: 2 for 2.0 and 0.2e1. It returns [tooLarge], with the sign, for what has more than 20 digits, because 1e512 would become 513. math/big does the same
// in a multiple of the CPU time (BenchmarkIntegerText), and a text may have a million such numbers.
func integerText(number []byte) (text []byte, ok bool) {
	if !evaluate.NumberInBounds(number) {
		return nil, false
	}
	number, negative := bytes.CutPrefix(number, []byte("-"))
	exponent := 0
	if at := bytes.IndexAny(number, "eE"); at >= 0 {
		exponent, _ = strconv.Atoi(string(number[at+1:])) // it is in bounds
		number = number[:at]
	}
	whole, fraction, cut := bytes.Cut(number, []byte("."))
	if !areDigits(whole) || len(whole) > 1 && whole[0] == '0' || cut && !areDigits(fraction) {
		return nil, false
	}
	text = make([]byte, len("-"), len("-")+max(len(whole)+len(fraction), len(tooLarge)))
	digits := append(append(text[1:], whole...), fraction...)
	point := max(len(whole)+exponent, 0) // digits before the decimal point
	for len(digits) > point {
		if digits[len(digits)-1] != '0' {
			return nil, false
		}
		digits = digits[:len(digits)-1]
	}
	zeros := point - len(digits)
	switch digits = bytes.TrimLeft(digits, "0"); {
	case len(digits) == 0:
		return []byte("0"), true
	case len(digits)+zeros > len(tooLarge):
		digits = []byte(tooLarge)
	default:
		digits = append(digits, bytes.Repeat([]byte("0"), zeros)...)
	}
	if negative {
		return append(append(text[:0], '-'), digits...), true
	}
	return digits, true
}

func areDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}
