package schema

import (
	"errors"
	"strconv"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

const tooLarge = "99999999999999999999" // out of the range of all integer types of Go

// appendInteger appends a number of JSON (RFC 8259, section 6) without fraction and exponent, and reports whether that can be
// done: 2 for 2.0 and 0.2e1. It appends [tooLarge], with the sign, for what no uint64 holds, because 1e512 would become 513 bytes.
// The plain version is math/big, which takes many times as long (BenchmarkAppendInteger).
func appendInteger(to, number []byte) (text []byte, ok bool) {
	if !evaluate.IsNumber(number) {
		return to, false
	}
	negative, n, err := jsonvalue.Integer(number)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return to, false
	}
	if negative && (n > 0 || err != nil) {
		to = append(to, '-')
	}
	if err != nil {
		return append(to, tooLarge...), true
	}
	return strconv.AppendUint(to, n, 10), true
}
