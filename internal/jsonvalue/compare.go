package jsonvalue

import (
	"bytes"
	"math/big"
)

// maxCompared is how many digits count: the middle between two values of a float64 has no more than 767.
const maxCompared = 800

// compare says on which side of (m + 1/2) × 2^e a number is, exactly.
func compare(text []byte, m uint64, e int) place {
	digits, exponent := allDigits(text)
	left, _ := new(big.Int).SetString(string(digits), 10)
	right := new(big.Int).SetUint64(2*m + 1)
	if exponent < 0 {
		right.Mul(right, five(-exponent))
	} else {
		left.Mul(left, five(exponent))
	}
	if shift := exponent - (e - 1); shift < 0 {
		right.Lsh(right, uint(-shift))
	} else {
		left.Lsh(left, uint(shift))
	}
	return place(left.Cmp(right))
}

// allDigits returns the digits of a number that count, and the exponent of ten of the last of them.
func allDigits(text []byte) (digits []byte, exponent int) {
	text = bytes.TrimPrefix(text, []byte("-"))
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		exponent = exponentOf(text[i+1:])
		text = text[:i]
	}
	whole, fraction, _ := bytes.Cut(text, []byte("."))
	exponent -= len(fraction)
	digits = bytes.TrimLeft(append(append(make([]byte, 0, len(text)+1), whole...), fraction...), "0")
	if len(digits) <= maxCompared {
		return digits, exponent
	}
	rest := digits[maxCompared:]
	exponent += len(rest)
	if digits = digits[:maxCompared]; len(bytes.Trim(rest, "0")) > 0 {
		digits = append(digits, '1') // more than nothing, and less than a digit
		exponent--
	}
	return digits, exponent
}
