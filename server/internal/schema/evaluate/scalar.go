package evaluate

import (
	"cmp"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// string applies the keywords about strings.
func (r *run) string(t *textRules, v uint32) bool {
	text, ok := r.doc.text(v), true
	if t.minLength != nil || t.maxLength != nil {
		r.charge(len(text) / bytesPerStep)
		length := utf8.RuneCount(text)
		if t.minLength != nil && length < *t.minLength {
			ok = r.fail(func() any { return &kind.MinLength{Got: length, Want: *t.minLength} })
		}
		if t.maxLength != nil && length > *t.maxLength {
			ok = r.fail(func() any { return &kind.MaxLength{Got: length, Want: *t.maxLength} }) && ok
		}
	}
	if t.pattern != nil && (ok || r.collects()) {
		if !r.matches(t.pattern, text) {
			ok = r.fail(func() any { return &kind.Pattern{Want: t.pattern.text} })
		}
	}
	return ok
}

// isInteger reports whether a number has no fraction: 2.0 and 2e0 have none.
func (r *run) isInteger(v uint32) bool {
	_, ok := smallInteger(r.doc.literal(v))
	return ok || r.decimal(v).isInteger()
}

// number applies the keywords about numbers.
func (r *run) number(n *numberRules, v uint32) bool {
	ok := true
	if b := n.minimum; b != nil && r.compare(v, b) < 0 {
		ok = r.fail(func() any { return &kind.Minimum{Want: b.value} })
	}
	if b := n.maximum; b != nil && r.compare(v, b) > 0 {
		ok = r.fail(func() any { return &kind.Maximum{Want: b.value} })
	}
	if b := n.above; b != nil && r.compare(v, b) <= 0 {
		ok = r.fail(func() any { return &kind.ExclusiveMinimum{Want: b.value} })
	}
	if b := n.below; b != nil && r.compare(v, b) >= 0 {
		ok = r.fail(func() any { return &kind.ExclusiveMaximum{Want: b.value} })
	}
	if n.multipleOf != nil && (ok || r.collects()) {
		number := r.decimal(v)
		r.charge(n.multipleOf.steps(number))
		if !n.multipleOf.divides(number) {
			ok = r.fail(func() any { return &kind.MultipleOf{Want: n.multiple} })
		}
	}
	return ok
}

// compare compares a number with a bound.
func (r *run) compare(v uint32, b *bound) int {
	r.charge(1)
	if b.exact {
		if number, ok := smallInteger(r.doc.literal(v)); ok {
			return cmp.Compare(number, b.small)
		}
	}
	return r.decimal(v).compare(b.decimal)
}

// maxSmallDigits is the number of digits that surely fit into 64 bits.
const maxSmallDigits = 17

// smallInteger returns the value of a number of few digits without fraction and exponent.
func smallInteger(literal []byte) (n int64, ok bool) {
	digits := literal
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) > maxSmallDigits {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if literal[0] == '-' {
		n = -n
	}
	return n, true
}
