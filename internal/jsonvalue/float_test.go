package jsonvalue

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// texts are numbers whose nearest values are hard to find, or that are at the ends of what there is.
var texts = []string{
	"0", "-0", "0.0", "-0e5", "0e999999999999999999999", "1", "-1.5", "10", "1e0", "1E+2", "0.1", "123e-2", "1e23", "8.5e22",
	"9007199254740993", "9007199254740993.0", "9007199254740992.99999999999999999999", "9007199254740993.00000000000000000001",
	"6929495644600919.5", "4503599627370496.5", "4503599627370497.5", "1.00000000000000011102230246251565404236316680908203125",
	"5e-324", "-5e-324", "2e-324", "3e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-323", "7e-320", "4.9406564584124654e-324",
	"2.2250738585072011e-308", "2.2250738585072012e-308", "2.2250738585072014e-308", "1e-342", "1e-343", "1e-344", "9999999999999999999e-343",
	"1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "1e308", "1e309", "18446744073709551615e289", "-1e400",
	"3.4028234e38", "3.4028235e38", "3.4028236e38", "3.4028235677973366e38", "1e-45", "7e-46", "7.1e-46", "1e-39", "1.1754943e-38",
	"9999999999999999999", "99999999999999999999", "18446744073709551616", "12345678901234567890123456789",
	"1e99999999999", "1e-99999999999", "-1e-99999999999", "0." + strings.Repeat("0", 400) + "1e400", "1" + strings.Repeat("0", 400) + "e-400",
	strings.Repeat("9", 900), strings.Repeat("7", 200) + "e-510", strings.Repeat("7", 1000) + "e-1000", "0." + strings.Repeat("0", 310) + strings.Repeat("3", 700),
	"9007199254740993." + strings.Repeat("0", 900), "9007199254740993." + strings.Repeat("0", 900) + "1",
}

func requireSame(t *testing.T, text string) {
	t.Helper()
	for _, size := range []int{64, 32} {
		want, wrong := strconv.ParseFloat(text, size)
		got, err := Float([]byte(text), size)
		if math.Float64bits(got) != math.Float64bits(want) || (err != nil) != (wrong != nil) {
			require.Failf(t, "not the nearest value", "%.60s (%d bytes), %d bits: %x and %v, not %x and %v", text, len(text), size, got, err, want, wrong)
		}
	}
}

// Float finds what strconv finds.
func TestFloat(t *testing.T) {
	for _, text := range texts {
		requireSame(t, text)
	}
	_, err := Float([]byte("1e309"), 64)
	require.Equal(t, strconv.ErrRange, err)
}

// strconv is wrong about more than 800 digits without a dot.
func TestFloatOfManyDigits(t *testing.T) {
	for text, want := range map[string]float64{
		"9007199254740993" + strings.Repeat("0", 900) + "e-900":       1 << 53,
		"9007199254740993" + strings.Repeat("0", 900) + "1e-901":      1<<53 + 2,
		strings.Repeat("0", 900) + "1":                                1,
		"-" + strings.Repeat("7", 2000) + "e-2000":                    -7.0 / 9,
		"9007199254740993" + strings.Repeat("0", 1<<20) + "e-1048576": 1 << 53,
	} {
		got, err := Float([]byte(text), 64)
		require.NoError(t, err)
		require.Equal(t, want, got, "%.40s, %d bytes", text, len(text))
	}
}

// Numbers beside the middle between two values are hardest.
func TestFloatAtTheMiddle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		f := math.Float64frombits(random.Uint64() >> 1)
		switch random.IntN(4) {
		case 0:
			f = math.Float64frombits(random.Uint64N(1 << 54)) // a small one
		case 1:
			f = math.Float64frombits(random.Uint64N(1 << 10))
		case 2:
			f = float64(math.Float32frombits(random.Uint32() >> 1))
		}
		if math.IsNaN(f) || math.IsInf(f, 0) || f == math.MaxFloat64 {
			continue
		}
		next := math.Nextafter(f, math.Inf(1))
		if random.IntN(2) == 0 && math.Abs(f) < math.MaxFloat32 {
			next = float64(math.Nextafter32(float32(f), math.MaxFloat32))
		}
		middle := new(big.Float).SetPrec(200).Add(big.NewFloat(f), big.NewFloat(next))
		exact := middle.Quo(middle, big.NewFloat(2)).Text('e', 800)
		digits, exponent, _ := strings.Cut(exact, "e")
		digits = strings.TrimRight(digits, "0")
		for _, text := range []string{digits, digits + "1", digits + "00000000000000000001", digits + strings.Repeat("0", 100) + "1", digits[:len(digits)-1] + "49999999999999999999"} {
			requireSame(t, text+"e"+exponent)
		}
		for _, n := range []int{16, 17, 18, 19, 20, 21, 25, 40, 100} { // a little below
			requireSame(t, digits[:min(len(digits), n+1)]+"e"+exponent)
		}
	}
}

// Any digits and any exponent.
func TestFloatOfRandomTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 50_000 {
		text := strconv.FormatUint(random.Uint64()>>random.IntN(64), 10)
		for range random.IntN(3) * random.IntN(30) / 10 {
			text += strconv.FormatUint(random.Uint64(), 10)
		}
		if random.IntN(2) == 0 {
			dot := 1 + random.IntN(len(text))
			if text = text[:dot] + "." + text[dot:]; dot+1 == len(text) {
				text += "0"
			}
		}
		if random.IntN(4) > 0 {
			text += fmt.Sprintf("e%d", random.IntN(720)-370)
		}
		requireSame(t, text)
	}
}

func FuzzFloat(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 800 && isNumber(text) {
			requireSame(t, text)
		}
	})
}

// BenchmarkFloat compares with strconv.
func BenchmarkFloat(b *testing.B) {
	for _, text := range []string{"1", "1.5", "0.12345678901234567", "1e-30", "123456789012345678901234567890", "9007199254740993", "7e-320",
		"9007199254740993.0000000000000000001", strings.Repeat("7", 200) + "e-510"} {
		name := text[:min(len(text), 40)]
		b.Run("of=strconv/"+name, func(b *testing.B) {
			for b.Loop() {
				_, _ = strconv.ParseFloat(text, 64)
			}
		})
		b.Run("of=here/"+name, func(b *testing.B) {
			number := []byte(text)
			for b.Loop() {
				_, _ = Float(number, 64)
			}
		})
	}
}

func isNumber(text string) bool {
	value := jsontext.Value(text)
	return value.Kind() == '0' && value.IsValid() && strings.TrimSpace(text) == text
}
