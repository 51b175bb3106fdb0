//go:build !race

package oauth

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Which issuer a token names is found without decoding its header, which anybody can fill with values.
func TestNamedIssuerAllocations(t *testing.T) {
	s := &ResourceServer{
		cfg:     Config{Introspection: &Introspection{Issuer: "one", Always: true}},
		issuers: map[string]*issuer{"one": {}, "two": {}},
	}
	encoded := base64.RawURLEncoding.EncodeToString
	token := func(header string) string {
		return encoded([]byte(header)) + "." + encoded([]byte(`{"iss":"two"}`)) + ".AAAA"
	}
	plain := token(`{"alg":"ES256"}`)
	full := token(`{"alg":"ES256","x":[` + strings.Repeat("1,", 5000) + `1]}`)
	require.False(t, s.introspects(plain))
	require.False(t, s.introspects(full))
	of := func(token string) float64 { return testing.AllocsPerRun(100, func() { s.introspects(token) }) }
	t.Logf("%v allocations, and %v with a full header", of(plain), of(full))
	require.LessOrEqual(t, of(full), of(plain)+20)
}
