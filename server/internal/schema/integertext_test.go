package schema

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

// TestAppendIntegerAgrees compares it with math/big, for what is a number of JSON.
func TestAppendIntegerAgrees(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	integers := 0
	for range 200_000 {
		var b strings.Builder
		for range 1 + rnd.IntN(7) {
			b.WriteByte("00123..eE-+"[rnd.IntN(11)])
		}
		number := b.String()
		switch rnd.IntN(8) {
		case 0:
			number = strings.Repeat(fmt.Sprint(rnd.IntN(99)), 8+rnd.IntN(5)) + ".0"
		case 1, 2, 3:
			number = fmt.Sprintf("%d.%de%d", rnd.IntN(600)-300, rnd.IntN(3)*10, rnd.IntN(50)-10)
		}
		if !evaluate.NumberInBounds([]byte(number)) {
			continue // big.Rat could take very long
		}
		text, ok := appendInteger([]byte("1,"), []byte(number))
		text, kept := bytes.CutPrefix(text, []byte("1,"))
		require.True(t, kept)
		want, isNumber := new(big.Rat).SetString(number)
		isNumber = isNumber && jsontext.Value(number).IsValid()
		require.Equal(t, isNumber && want.IsInt(), ok, number)
		if !ok {
			require.Empty(t, text)
			continue
		}
		integers++
		digits := want.Num().String()
		if sign := strings.TrimRight(digits, "0123456789"); len(digits) > len(sign+tooLarge) {
			digits = sign + tooLarge
		}
		require.Equal(t, digits, string(text), number)
	}
	require.Greater(t, integers, 10_000)
}

func BenchmarkAppendInteger(b *testing.B) {
	number := []byte("20.0")
	b.Run("own", func(b *testing.B) {
		var text []byte
		for b.Loop() {
			text, _ = appendInteger(text[:0], number)
		}
	})
	b.Run("big", func(b *testing.B) {
		for b.Loop() {
			r, _ := new(big.Rat).SetString(string(number))
			_ = r.IsInt() && jsontext.Value(number).IsValid()
			_ = r.Num().String()
		}
	})
}
