package evaluate

import (
	"bytes"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
)

// A decimal is an exact number in its shortest form: 0.DIGITS times ten to the power of exp. The
// digits begin and end with another digit than 0; zero has no digits. Equal numbers have equal
// decimals, and comparing two takes no arithmetic.
type decimal struct {
	negative bool
	digits   []byte
	exp      int
}

// parseDecimal reads a JSON number within the bounds. The digits are a part of the literal or of
// scratch, which it returns for the next number.
func parseDecimal(literal, scratch []byte) (decimal, []byte) {
	var d decimal
	rest := literal
	if rest[0] == '-' {
		d.negative, rest = true, rest[1:]
	}
	exponent := 0
	if i := exponentAt(rest); i >= 0 {
		exponent, _ = strconv.Atoi(string(rest[i+1:]))
		rest = rest[:i]
	}
	d.digits, d.exp = rest, len(rest)+exponent
	if i := bytes.IndexByte(rest, '.'); i >= 0 {
		scratch = append(append(scratch[:0], rest[:i]...), rest[i+1:]...)
		d.digits, d.exp = scratch, i+exponent
	}
	significant := bytes.TrimLeft(d.digits, "0")
	d.exp -= len(d.digits) - len(significant)
	d.digits = bytes.TrimRight(significant, "0")
	if len(d.digits) == 0 {
		d = decimal{}
	}
	return d, scratch
}

// decimalOf returns the decimal of a number from a schema, which is exact, because it was written as
// a JSON number.
func decimalOf(r *big.Rat) decimal {
	precision, _ := r.FloatPrec()
	d, _ := parseDecimal([]byte(r.FloatString(precision)), nil)
	return d
}

// compare returns -1, 0 or 1.
func (d decimal) compare(o decimal) int {
	switch {
	case d.negative && !o.negative:
		return -1
	case !d.negative && o.negative:
		return 1
	case d.negative:
		return o.magnitude(d)
	}
	return d.magnitude(o)
}

// magnitude compares without signs.
func (d decimal) magnitude(o decimal) int {
	switch {
	case len(d.digits) == 0 || len(o.digits) == 0:
		return min(len(d.digits), 1) - min(len(o.digits), 1)
	case d.exp != o.exp:
		if d.exp < o.exp {
			return -1
		}
		return 1
	}
	return bytes.Compare(d.digits, o.digits)
}

func (d decimal) isInteger() bool { return d.exp >= len(d.digits) }

// small returns what [smallInteger] returns for an equal number without fraction and exponent.
func (d decimal) small() (n int64, ok bool) {
	if !d.isInteger() || d.exp > maxSmallDigits {
		return 0, false
	}
	for i := range d.exp {
		n *= 10
		if i < len(d.digits) {
			n += int64(d.digits[i] - '0')
		}
	}
	if d.negative {
		n = -n
	}
	return n, true
}

// appendTo appends a text that is the same for equal numbers only.
func (d decimal) appendTo(to []byte) []byte {
	if d.negative {
		to = append(to, '-')
	}
	to = append(to, d.digits...)
	return append(strconv.AppendInt(append(to, 'e'), int64(d.exp), 10), ';')
}

// A divisor is the value of multipleOf: factor times ten to the power of exp.
type divisor struct {
	factor uint64   // 0 if it does not fit
	large  *big.Int // if it does not fit
	exp    int
}

func divisorOf(r *big.Rat) *divisor {
	d := decimalOf(r)
	n := divisor{exp: d.exp - len(d.digits)}
	factor, err := strconv.ParseUint(string(d.digits), 10, 64)
	if n.factor = factor; err != nil {
		n.factor = 0
		n.large, _ = new(big.Int).SetString(string(d.digits), 10)
	}
	return &n
}

// largeDivision are the steps of a division by a number of more than 64 bits.
const largeDivision = 256

// steps returns the steps of a division.
func (n *divisor) steps(d decimal) int {
	if n.large != nil {
		return largeDivision
	}
	return 1 + (len(d.digits)+max(d.exp-len(d.digits)-n.exp, 0))/2
}

// divides reports whether a number is a multiple. A decimal ends with another digit than 0, so that it
// is no multiple of a divisor with a larger exponent.
func (n *divisor) divides(d decimal) bool {
	shift := d.exp - len(d.digits) - n.exp
	switch {
	case len(d.digits) == 0:
		return true
	case shift < 0:
		return false
	case n.large != nil:
		number, _ := new(big.Int).SetString(string(slices.Concat(d.digits, bytes.Repeat([]byte("0"), shift))), 10)
		return new(big.Int).Mod(number, n.large).Sign() == 0
	}
	var rest uint64
	for _, digit := range d.digits {
		rest = n.next(rest, uint64(digit-'0'))
	}
	for range shift {
		if rest == 0 {
			return true
		}
		rest = n.next(rest, 0)
	}
	return rest == 0
}

// next returns the remainder of a number with one more digit.
func (n *divisor) next(rest, digit uint64) uint64 {
	high, low := bits.Mul64(rest, 10)
	low, carry := bits.Add64(low, digit, 0)
	return bits.Rem64(high+carry, low, n.factor)
}
