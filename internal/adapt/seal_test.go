package adapt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

// Only ids with a seal of ours can be opened, and each change breaks the seal.
func TestSessionSeal(t *testing.T) {
	seal := newSessionSeal()
	ann, bob := &auth.Principal{Subject: "ann"}, &auth.Principal{Subject: "bob"}
	sealed := seal.seal("a.session", ann)
	id, genuine, own := seal.open(sealed, &auth.Principal{Subject: "ann", Scopes: []string{"more"}})
	require.Equal(t, "a.session", id)
	require.True(t, genuine && own)
	for _, other := range []*auth.Principal{bob, nil, {Subject: "ann", Tenant: "other"}, {Subject: "ann", Issuer: "other"}} {
		_, genuine, own = seal.open(sealed, other)
		require.True(t, genuine && !own, other)
	}
	for i := range len(sealed) {
		changed := []byte(sealed)
		changed[i] ^= 1
		_, genuine, own = seal.open(string(changed), ann)
		require.False(t, genuine || own, string(changed))
	}
	for _, short := range []string{"", ".", "a.session", sealed[:len(sealed)-4], sealed + "AAAA"} {
		_, genuine, _ = seal.open(short, ann)
		require.False(t, genuine, short)
	}
	_, genuine, _ = newSessionSeal().open(sealed, ann)
	require.False(t, genuine, "another process has another key")
}
