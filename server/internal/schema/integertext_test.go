package schema

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
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
		if !new(big.Int).Abs(want.Num()).IsUint64() {
			digits = strings.TrimRight(digits, "0123456789") + tooLarge
		}
		require.Equal(t, digits, string(text), number)
	}
	require.Greater(t, integers, 10_000)
}

// What follows a number that no integer type holds is not decoded, so that it need not be rewritten.
func TestCompletionEndsAtWhatIsTooLarge(t *testing.T) {
	s, err := For(reflect.TypeFor[struct {
		Few []int `json:"few"`
		N   int   `json:"n,omitempty" default:"7"`
	}]())
	require.NoError(t, err)
	text, ok := s.shape.completed([]byte(`{"few":[1.0,-1e20,2.0,1e512]}`), nil)
	require.True(t, ok)
	require.Equal(t, `{"few":[1,-99999999999999999999,2.0,1e512]}`, string(text))
	text, ok = s.shape.completed([]byte(`{"few":[1.0,1e19,-1e19,2.0]}`), nil)
	require.True(t, ok)
	require.Equal(t, `{"few":[1,10000000000000000000,-10000000000000000000,2],"n":7}`, string(text))
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
