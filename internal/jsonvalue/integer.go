package jsonvalue

import (
	"math"
	"math/bits"
	"reflect"
	"strconv"
)

// Integer returns the integer that a number of JSON (RFC 8259, section 6) is, in any notation: 2 for 2.0 and for 20e-1. The error
// is [strconv.ErrSyntax] for a fraction, and [strconv.ErrRange] for an integer that no uint64 holds. The text must be a number.
// Integer is safe for concurrent use.
func Integer(text []byte) (negative bool, n uint64, err error) {
	if negative = text[0] == '-'; negative {
		text = text[1:]
	}
	// What was read is n × 10^(zeros+exponent), if it fits.
	zeros, exponent, afterDot, fits := 0, 0, false, true
read:
	for i, c := range text {
		switch {
		case c == '.':
			afterDot = true
			continue
		case c|0x20 == 'e':
			exponent += exponentOf(text[i+1:])
			break read
		case c == '0':
			zeros++
		default:
			n, fits = shifted(n, zeros+1, fits)
			var carry uint64
			n, carry = bits.Add64(n, uint64(c-'0'), 0)
			zeros, fits = 0, fits && carry == 0
		}
		if afterDot {
			exponent--
		}
	}
	switch power := exponent + zeros; {
	case fits && n == 0:
		return negative, 0, nil
	case power < 0:
		return negative, 0, strconv.ErrSyntax
	default:
		n, fits = shifted(n, power, fits)
	}
	if !fits {
		return negative, 0, strconv.ErrRange
	}
	return negative, n, nil
}

// shifted returns n × 10^places, and whether that still fits.
func shifted(n uint64, places int, fits bool) (uint64, bool) {
	if n == 0 || !fits {
		return n, fits
	}
	if places >= len(wholeTens) {
		return n, false
	}
	high, low := bits.Mul64(n, wholeTens[places])
	return low, high == 0
}

// wholeTens are the powers of ten that a uint64 holds.
var wholeTens = func() (all [20]uint64) {
	for i, n := 0, uint64(1); i < len(all); i++ {
		all[i] = n
		n *= 10
	}
	return all
}()

// integerRange is what a type of Go holds.
type integerRange struct {
	least, most uint64 // least without its sign
}

func rangeOf(t reflect.Type) (r integerRange) {
	r.most = math.MaxUint64 >> (64 - t.Bits())
	if t.Kind() <= reflect.Int64 {
		r.most >>= 1
		r.least = r.most + 1
	}
	return r
}

// read is [Integer] for a type. It returns the bits, extended with the sign, and the errors of json/v2.
func (r integerRange) read(literal []byte) (uint64, error) {
	negative, n, err := Integer(literal)
	switch {
	case negative && r.least == 0 && (err != nil || n > 0 || len(literal) == len("-0")):
		return 0, strconv.ErrSyntax
	case err != nil:
		return 0, err
	case negative && n > r.least, !negative && n > r.most:
		return 0, strconv.ErrRange
	case negative:
		return -n, nil
	}
	return n, nil
}
