package evaluate

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Exponents are read as strconv reads them, within the bounds.
func TestExponentOf(t *testing.T) {
	for _, text := range []string{
		"", "-", "+", "0", "-0", "+7", "--1", "+-1", "00012", "512", "-512", "513", "-513", "0000000000000000000000512",
		"99999999999999999999999", "1.", "1e1", "x", " 1", "1 ",
	} {
		want, err := strconv.Atoi(text)
		got, ok := exponentOf([]byte(text))
		require.Equal(t, err == nil && want >= -maxExponent && want <= maxExponent, ok, text)
		if ok {
			require.Equal(t, want, got, text)
		}
	}
	at, exponent, ok := NumberExponent([]byte("12.5E-3"))
	require.Equal(t, []any{4, -3, true}, []any{at, exponent, ok})
	at, exponent, ok = NumberExponent([]byte("-125"))
	require.Equal(t, []any{4, 0, true}, []any{at, exponent, ok})
}
