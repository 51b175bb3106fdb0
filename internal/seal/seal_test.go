package seal

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

func secret(b byte) []byte { return append(bytes.Repeat([]byte{b}, MinKeyBytes-1), ^b) }

func ring(t testing.TB, name string, secrets ...[]byte) Ring {
	t.Helper()
	r, err := NewRing(name, secrets)
	require.NoError(t, err)
	return r
}

func TestRing(t *testing.T) {
	one := ring(t, "s", secret(1))
	sealed := one.Seal([]byte("hello"))
	require.NotEqual(t, sealed, one.Seal([]byte("hello")), "no two states look the same")
	require.Len(t, sealed, SealedLen(5))
	require.Equal(t, sealed, base64.RawURLEncoding.EncodeToString(mustDecode(t, sealed)))

	for name, tt := range map[string]struct {
		ring Ring
		want mcp.StateFault
	}{
		"itself":                      {one, ""},
		"another replica":             {ring(t, "s", secret(1)), ""},
		"after the rotation":          {ring(t, "s", secret(2), secret(1)), ""},
		"before the rotation":         {ring(t, "s", secret(1), secret(2)), ""},
		"the key is retired":          {ring(t, "s", secret(2)), mcp.StateForeign},
		"another server, one secret":  {ring(t, "other", secret(1)), mcp.StateForeign},
		"a random key":                {ring(t, "s"), mcp.StateForeign},
		"a longer secret, same start": {ring(t, "s", append(secret(1), 1)), mcp.StateForeign},
	} {
		t.Run(name, func(t *testing.T) {
			plain, fault := tt.ring.Open(sealed)
			require.Equal(t, tt.want, fault)
			if fault == "" {
				require.Equal(t, "hello", string(plain))
			} else {
				require.Nil(t, plain)
			}
		})
	}
	rotated := ring(t, "s", secret(2), secret(1))
	_, fault := ring(t, "s", secret(1)).Open(rotated.Seal(nil))
	require.Equal(t, mcp.StateForeign, fault, "the first key seals")

	_, err := NewRing("s", [][]byte{secret(1), secret(2)[1:]})
	require.EqualError(t, err, "state key 2 has 31 bytes and needs 32")
}

func mustDecode(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	return raw
}

// A change of any bit, or of the length, of a sealed state is noticed.
func TestTamperingIsNoticed(t *testing.T) {
	r := ring(t, "s", secret(1))
	sealed := mustDecode(t, r.Seal([]byte(`{"kept":1}`)))
	for i := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1 << bit
			_, fault := r.Open(text.EncodeToString(changed))
			want := mcp.StateChanged
			switch {
			case i == 0:
				want = mcp.StateMalformed // the version
			case i < headLen:
				want = mcp.StateForeign // the key
			}
			require.Equal(t, want, fault, "byte %d, bit %d", i, bit)
		}
	}
	for n := range sealed {
		_, fault := r.Open(text.EncodeToString(sealed[:n]))
		require.NotEmpty(t, fault, "cut to %d bytes", n)
	}
	_, fault := r.Open(text.EncodeToString(append(bytes.Clone(sealed), 0)))
	require.Equal(t, mcp.StateChanged, fault)
}

// A text that a lenient decoder reads in the same way is not accepted.
func TestTextIsCanonical(t *testing.T) {
	r := ring(t, "s", secret(1))
	sealed := r.Seal([]byte("a"))
	require.Equal(t, 3, len(sealed)%4, "the last letter has bits to spare")
	for _, other := range []string{"", "=", " ", sealed + "=", sealed + "\n", "\n" + sealed, sealed[:10] + "\r\n" + sealed[10:], sealed + "-TAMPERED", "%" + sealed[1:], "é" + sealed[2:]} {
		_, fault := r.Open(other)
		assert.NotEmpty(t, fault, "%q", other)
	}
	last := strings.IndexByte(letters, sealed[len(sealed)-1])
	_, fault := r.Open(sealed[:len(sealed)-1] + string(letters[last^1]))
	require.Equal(t, mcp.StateMalformed, fault, "spare bits count")
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
