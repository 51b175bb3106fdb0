package jsonvalue

import (
	"math"
	"math/bits"
	"strconv"
)

// Float returns the float64 that is nearest to a number of JSON (RFC 8259, section 6), and of two that are as near the one whose
// last bit is 0: what [strconv.ParseFloat] returns. For bits of 32 it is the nearest float32. A number that is too large is an
// infinity with the error [strconv.ErrRange]. The text must be a number. Float is safe for concurrent use.
func Float(text []byte, bits int) (float64, error) {
	to := &double
	if bits == 32 {
		to = &single
	}
	n := read(text)
	if f, ok := n.short(bits); ok {
		return f, nil
	}
	f := to.value(to.nearest(text, n))
	if n.negative {
		f = -f
	}
	if math.IsInf(f, 0) {
		return f, strconv.ErrRange
	}
	return f, nil
}

// A number is a text without its dot: digits × 10^exponent.
type number struct {
	negative bool
	digits   uint64 // the first 19 from the first that is not 0
	exponent int
	more     bool // of the digits that follow not all are 0
}

// tens are the powers of ten that a float64 holds, and up to 1e10 a float32.
var tens = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// short computes the value of a number whose digits, all of them, and whose power of ten the format holds: one operation of floats rounds it.
func (n *number) short(bits int) (f float64, ok bool) {
	power := max(n.exponent, -n.exponent)
	switch {
	case bits == 64 && n.digits < 1<<53 && power < len(tens):
		if f = float64(n.digits) * tens[power]; n.exponent < 0 {
			f = float64(n.digits) / tens[power]
		}
	case bits == 32 && n.digits < 1<<24 && power <= 10:
		if f = float64(float32(n.digits) * float32(tens[power])); n.exponent < 0 {
			f = float64(float32(n.digits) / float32(tens[power]))
		}
	default:
		return 0, false
	}
	if n.negative {
		f = -f
	}
	return f, true
}

// maxDigits is how many digits a uint64 holds.
const maxDigits = 19

func read(text []byte) (n number) {
	i, count, afterDot := 0, 0, false
	if text[0] == '-' {
		n.negative = true
		i++
	}
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '.':
			afterDot = true
			continue
		case c|0x20 == 'e':
			n.exponent += exponentOf(text[i+1:])
			return n
		case count < maxDigits:
			n.digits = n.digits*10 + uint64(c-'0')
			if n.digits > 0 {
				count++
			}
		default:
			n.more = n.more || c != '0'
			n.exponent++
		}
		if afterDot {
			n.exponent--
		}
	}
	return n
}

// maxExponent is more than a text has digits. Exponents that are larger are all the same.
const maxExponent = 100_000_000

// exponentOf returns what follows the e.
func exponentOf(text []byte) (exponent int) {
	negative := text[0] == '-'
	for _, c := range text {
		if c != '-' && c != '+' && exponent < maxExponent {
			exponent = exponent*10 + int(c-'0')
		}
	}
	if negative {
		return -exponent
	}
	return exponent
}

// A format is one of IEEE 754.
type format struct {
	width int // bits of a mantissa
	least int // the exponent of the last bit of the smallest value
}

var double, single = format{53, -1074}, format{24, -149}

// value returns mantissa × 2^exponent, or an infinity if that is too large. If it is not, the mantissa has all its bits, or the
// exponent is the least one, so that the bits of the value are their sum: what a mantissa has beyond its bits carries into the
// exponent. [math.Ldexp] takes longer than all else here.
func (f *format) value(mantissa uint64, exponent int) float64 {
	steps := uint64(exponent - f.least)
	if f.width == single.width {
		const infinity = 0xff << 23
		if steps > 0xff {
			return math.Inf(1)
		}
		return float64(math.Float32frombits(uint32(min(steps<<23+mantissa, infinity))))
	}
	const infinity = 0x7ff << 52
	if steps > 0x7ff {
		return math.Inf(1)
	}
	return math.Float64frombits(min(steps<<52+mantissa, infinity))
}

// A place is where in the unit of its last bit a number lies, seen from the middle.
type place int

const (
	below place = iota - 1
	middle
	above
	unknown
)

// nearest returns the nearest value of a format, as mantissa and exponent of two.
func (f *format) nearest(text []byte, n number) (mantissa uint64, exponent int) {
	if n.digits == 0 {
		return 0, f.least
	}
	m, exponent, at := f.split(n.digits, n.exponent)
	if n.more {
		// The number is between these two, and neither of them.
		if other, _, end := f.split(n.digits+1, n.exponent); other != m || end != at {
			at = unknown
		}
	}
	if at == unknown {
		at = compare(text, m, exponent)
	}
	if at == above || at == middle && m&1 == 1 {
		m++
	}
	return m, exponent
}

// split returns digits × 10^exponent as (m + x) × 2^e, where x is less than 1, m has no more bits than a mantissa and fewer only
// if e is the least exponent; and where x lies. It is unknown if it may be in the middle or below.
func (f *format) split(digits uint64, exponent int) (m uint64, e int, at place) {
	switch {
	case exponent < minPower:
		return 0, f.least, below
	case exponent > maxPower:
		return 1, math.MaxInt16, below // too large
	}
	p := &powers()[exponent-minPower]
	zeros := bits.LeadingZeros64(digits)
	digits <<= zeros
	// The product has 192 bits. The upper 128 are high and low. What follows, and what the power lacks, are less than 2 of their units.
	high, carried := bits.Mul64(digits, p.high)
	carry, last := bits.Mul64(digits, p.low)
	low, c := bits.Add64(carried, carry, 0)
	high += c
	unit := p.exponent + 64 - zeros // the exponent of two of a unit
	top := unit + 127 - bits.LeadingZeros64(high)
	e = max(top-f.width+1, f.least)
	drop := e - unit - 64 // bits of high that are in x
	if drop > 64 {
		return 0, e, below
	}
	half := uint64(1) << (drop - 1)
	m = high >> drop
	x := high & (half<<1 - 1)
	switch {
	case x > half, x == half && low > 0:
		return m, e, above
	case x == half && p.exact && last == 0:
		return m, e, middle
	case x == half:
		return m, e, above
	case x == half-1 && low >= math.MaxUint64-1 && !p.exact:
		return m, e, unknown
	}
	return m, e, below
}
