package jsonvalue

import (
	"math/big"
	"sync"
	"sync/atomic"
)

// Powers of ten of which the products with 64 bits are neither too small nor too large for a float64.
const (
	minPower = -343
	maxPower = 308
)

// A power is (high × 2^64 + low) × 2^exponent, 128 bits of which the first is 1. It is not larger than the power of ten, and
// differs from it by less than a unit of the last bit.
type power struct {
	high, low uint64
	exponent  int
	exact     bool
}

// powers returns all powers of ten. They are made when the first number needs them: programs have other things to do when they begin.
var powers = sync.OnceValue(func() *[maxPower - minPower + 1]power {
	all := new([maxPower - minPower + 1]power)
	for i := range all {
		all[i] = newPower(i + minPower)
	}
	return all
})

func newPower(ten int) (p power) {
	value, exponent := new(big.Int).Set(five(max(ten, -ten))), ten
	if ten < 0 {
		shift := uint(value.BitLen() + 127)
		value.Quo(new(big.Int).Lsh(big.NewInt(1), shift), value)
		exponent -= int(shift)
	}
	shift := value.BitLen() - 128
	p.exact = ten >= 0 && shift <= 0
	if shift > 0 {
		value.Rsh(value, uint(shift))
	} else {
		value.Lsh(value, uint(-shift))
	}
	p.exponent = exponent + shift
	p.low = value.Uint64()
	p.high = value.Rsh(value, 64).Uint64()
	return p
}

// fives remembers powers of five.
var fives [1 << 11]atomic.Pointer[big.Int]

// five returns a power of five, which must not be changed.
func five(exponent int) *big.Int {
	if exponent >= len(fives) {
		return power5(exponent)
	}
	if known := fives[exponent].Load(); known != nil {
		return known
	}
	value := power5(exponent)
	fives[exponent].Store(value)
	return value
}

func power5(exponent int) *big.Int {
	return new(big.Int).Exp(big.NewInt(5), big.NewInt(int64(exponent)), nil)
}
