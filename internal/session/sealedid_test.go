package session

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func testRing(t testing.TB) seal.Ring {
	t.Helper()
	ring, err := seal.NewRing("test", [][]byte{append(bytes.Repeat([]byte{1}, 31), 2)})
	require.NoError(t, err)
	return ring
}

func TestSealedIDKeepsWhatIsAgreedOn(t *testing.T) {
	ring := testRing(t)
	for bits := range 1 << len(capabilityBits) {
		d := sealedID{
			id: "abc", created: time.Unix(100, 0), ends: time.Unix(200, 0),
			owner: ownerOf(&auth.Principal{Issuer: "i", Subject: "s", Tenant: "t"}),
			peer:  &Peer{Version: mcp.Version20250618, Client: mcp.Implementation{Name: "agent", Version: "1.2"}},
		}
		for i, b := range capabilityBits {
			if bits&(1<<i) != 0 {
				b.set(&d.peer.Capabilities)
			}
		}
		if bits&1 != 0 {
			d.peer.Capabilities.Extensions = map[string]any{"org.example/a": map[string]any{}, "org.example/b": map[string]any{}}
		}
		got, ok := openID(ring, ring.Seal(d.append(nil)))
		require.True(t, ok)
		require.Equal(t, d, got)
	}
}

// What a client says of itself is cut, so that the id has less than 1 KB.
func TestSealedIDIsBounded(t *testing.T) {
	ring := testRing(t)
	long := strings.Repeat("é", 1000)
	d := sealedID{id: "abc", peer: &Peer{
		Version: mcp.Version(long), Client: mcp.Implementation{Name: long, Version: long},
		Capabilities: mcp.ClientCapabilities{Extensions: map[string]any{long: nil}},
	}}
	for i := range 200 {
		d.peer.Capabilities.Extensions[fmt.Sprintf("org.example/%03d", i)] = nil
	}
	text := ring.Seal(d.append(nil))
	require.Less(t, len(text), maxSealedID)
	got, ok := openID(ring, text)
	require.True(t, ok)
	require.Equal(t, strings.Repeat("é", 32), got.peer.Client.Name)
	require.Len(t, got.peer.Capabilities.Extensions, 16, "as many as there is room for")
	require.Contains(t, got.peer.Capabilities.Extensions, "org.example/000")

	_, ok = openID(ring, text+strings.Repeat("A", maxSealedID))
	require.False(t, ok)
}

// An id that another release has sealed in its own format is none that this one knows, although a key opens it.
func TestSealedIDOfAnotherFormat(t *testing.T) {
	ring := testRing(t)
	plain := (&sealedID{id: "abc", peer: &Peer{Version: mcp.Version20250618}}).append(nil)
	_, ok := openID(ring, ring.Seal(plain))
	require.True(t, ok)
	for _, other := range []byte{sealedFormat - 1, sealedFormat + 1} {
		plain[0] = other
		_, ok = openID(ring, ring.Seal(plain))
		require.False(t, ok)
	}
}

func TestOwnersDifferInEachPart(t *testing.T) {
	seen := map[owner]string{}
	for _, p := range []*auth.Principal{
		nil, {Subject: "a"}, {Subject: "b"}, {Issuer: "a"}, {Issuer: "a", Subject: "b"}, {Subject: "a", Tenant: "b"}, {Issuer: "a", Subject: "b", Tenant: "c"},
	} {
		o := ownerOf(p)
		require.NotContains(t, seen, o, "%v", p)
		seen[o] = p.String()
	}
}

// FuzzSealedID holds that the content of an id that another release has sealed is read or refused.
func FuzzSealedID(f *testing.F) {
	d := sealedID{id: "abc", peer: &Peer{Version: mcp.Version20250618}}
	f.Add(d.append(nil))
	f.Add([]byte{})
	f.Add([]byte{sealedFormat})
	f.Fuzz(func(t *testing.T, plain []byte) {
		d, ok := parseSealedID(plain)
		if !ok {
			return
		}
		again, ok := parseSealedID(d.append(nil))
		if !ok || again.id != d.id || !again.ends.Equal(d.ends) {
			t.Fatalf("%+v became %+v", d, again)
		}
	})
}
