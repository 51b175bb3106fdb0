//go:build !race

package oauth_test

import (
	"context"
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// Remembered tokens take no more memory than they count for, whatever their claims look like.
func TestMemoryOfRememberedTokens(t *testing.T) {
	key := newSigner("k1", "EdDSA")
	members := map[string]any{}
	for i := range 700 {
		members["m"+string(rune('a'+i%26))+string(rune('a'+i/26%26))] = i
	}
	for name, claims := range map[string]any{
		"text":         strings.Repeat("x", 10_000),
		"texts":        strings.Split(strings.Repeat("abc ", 1500), " "),
		"empty texts":  make([]string, 3000),
		"numbers":      make([]int, 4000),
		"fractions":    []any{make([]float64, 0), strings.Split(strings.Repeat("x", 10), ""), 0.5},
		"empty lists":  make([][0]int, 3000),
		"empty maps":   make([]struct{}, 3000),
		"members":      members,
		"one member":   one(1200),
		"nested lists": nested(3000),
		"nothing":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			rs := newServer(t, newIssuer(key), func(c *oauth.Config) { c.Limits.MaxTokenCacheBytes = 1 << 30 })
			token := func(n int) string {
				return key.sign(with(maps.Clone(goodClaims()), jwt.MapClaims{"jti": n, "x": claims}), nil)
			}
			admitted(t, rs, bearer(token(-1)))
			const tokens = 50
			before, counted := heap(), rs.Stats().CachedBytes
			for n := range tokens {
				_, err := rs.Authenticate(context.Background(), bearer(token(n)))
				require.NoError(t, err)
			}
			took, counts := heap()-before, rs.Stats().CachedBytes-counted
			t.Logf("%d bytes of %d that they count for, each", took/tokens, counts/tokens)
			require.Less(t, took, counts)
			require.Greater(t, took, counts/6, "they count for much more than they take")
			runtime.KeepAlive(rs)
		})
	}
}

// one returns maps with one member each.
func one(n int) (all []map[string]int) {
	for range n {
		all = append(all, map[string]int{"": 0})
	}
	return all
}

// nested returns lists in lists.
func nested(depth int) any {
	var v any
	for range depth {
		v = []any{v}
	}
	return v
}

// heap returns the bytes of the heap that are in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
