package jsonvalue

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// someNumbers are numbers in all notations, many of them at the bounds of types.
func someNumbers() (all []string) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, size := range []uint{7, 8, 15, 16, 31, 32, 63, 64} {
		for _, by := range []int64{-1, 0, 1} {
			n := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), size), big.NewInt(by)).String()
			all = append(all, n, "-"+n, n+".000", n+"0e-1", n[:2]+"."+n[2:]+"e"+strconv.Itoa(len(n)-2))
		}
	}
	for range 5000 {
		digits := strconv.Itoa(1+random.IntN(1000)) + strings.Repeat("0", random.IntN(25))
		all = append(all, []string{"", "-"}[random.IntN(2)]+digits+[]string{"", ".0", ".50", ".00100"}[random.IntN(4)]+[]string{"", "e0", "E+3", "e-2", "e-22", "e18", "e99"}[random.IntN(7)])
	}
	for range 200 {
		all = append(all, fmt.Sprintf("%d%d.0", random.Uint64()|1, random.IntN(10)), fmt.Sprintf("%de-1", random.Uint64()|1))
	}
	return append(all, "0", "-0", "-0.0", "0e999999999999", "0.0000000000000000000000001", "1e-999999999999", "1e999999999999")
}

// Integer agrees with math/big.
func TestIntegerAgrees(t *testing.T) {
	results := map[error]int{}
	for _, text := range someNumbers() {
		negative, n, err := Integer([]byte(text))
		results[err]++
		switch want, isNumber := new(big.Rat).SetString(text); {
		case !isNumber: // it has too large an exponent for math/big
			require.Equal(t, err == nil, strings.HasPrefix(text, "0"), text)
			require.Equal(t, errors.Is(err, strconv.ErrSyntax), strings.Contains(text, "e-"), text)
		case !want.IsInt():
			require.ErrorIs(t, err, strconv.ErrSyntax, text)
		case !new(big.Int).Abs(want.Num()).IsUint64():
			require.ErrorIs(t, err, strconv.ErrRange, text)
		default:
			require.NoError(t, err, text)
			require.Equal(t, new(big.Int).Abs(want.Num()).Uint64(), n, text)
			require.Equal(t, text[0] == '-', negative, text)
		}
	}
	require.Greater(t, min(results[nil], results[strconv.ErrSyntax], results[strconv.ErrRange]), 500)
}

// A list or a map takes an integer in any notation, and is decoded as json/v2 decodes it in its plain one.
func TestIntegersInAnyNotation(t *testing.T) {
	decoders := json.JoinOptions(json.WithUnmarshalers(WithIntegers(Numbers)), jsontext.AllowDuplicateNames(true))
	good, bad := 0, 0
	for _, list := range []any{
		[]int{}, []int32{}, []int64{}, []uint{}, []uint32{}, []uint64{}, map[string]int{}, map[string]int64{},
	} {
		typ := reflect.TypeOf(list)
		format := "[1, %s ,2]"
		if typ.Kind() == reflect.Map {
			format = `{"a":1, "b/c" : %s ,"d":2}`
		}
		require.True(t, OfIntegers(typ))
		require.Equal(t, typ.Kind() == reflect.Slice, IsIntegerList(typ))
		for _, number := range append(someNumbers(), "null", `"1"`, "[1]") {
			plain := number
			switch n, is := new(big.Rat).SetString(number); {
			case is && n.IsInt() && number != "-0":
				plain = n.Num().String()
			case number == "1e999999999999": // too large an exponent for math/big
				plain = strings.Repeat("9", 30)
			}
			want, got := reflect.New(typ), reflect.New(typ)
			wanted := json.Unmarshal(fmt.Appendf(nil, format, plain), want.Interface())
			err := json.Unmarshal(fmt.Appendf(nil, format, number), got.Interface(), decoders)
			if wanted == nil {
				require.NoError(t, err, "%v %s", typ, number)
				require.Equal(t, want.Interface(), got.Interface(), number)
				good++
				continue
			}
			bad++
			a, is := errors.AsType[*json.SemanticError](wanted)
			require.True(t, is)
			b, is := errors.AsType[*json.SemanticError](err)
			require.True(t, is, "%v %s: %v, not %v", typ, number, err, wanted)
			require.Equal(t, []any{a.JSONPointer, a.JSONKind, a.GoType, a.Err}, []any{b.JSONPointer, b.JSONKind, b.GoType, b.Err}, "%v %s", typ, number)
		}
	}
	require.Greater(t, min(good, bad), 3000)
	for _, other := range []any{[]byte{}, []int8{}, []uint16{}, []float64{}, []degree{}, []uintptr{}, []*int{}, [1]int{}, named{}, []named{}, 1, map[string]int32{}, map[string]uint{},
		map[key]int{}, map[int]int{}, map[string]degree{}, map[string][]int{}} {
		require.False(t, OfIntegers(reflect.TypeOf(other)), "%T", other)
		require.False(t, IsIntegerList(reflect.TypeOf(other)), "%T", other)
	}
	require.Nil(t, WithIntegers(nil))
	require.NotSame(t, WithIntegers(Numbers), WithIntegers(NamedNumbers))
}

type (
	named []int
	key   string
)
