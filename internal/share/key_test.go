package share

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

func TestKeysOfCallers(t *testing.T) {
	ann := &auth.Principal{Issuer: "https://a.example", Subject: "ann"}
	for _, tc := range []struct {
		p    *auth.Principal
		addr string
		want string
	}{
		{nil, "192.0.2.1:1234", "192.0.2.1"},
		{nil, "192.0.2.1", "192.0.2.1"},
		{nil, "[::ffff:192.0.2.1]:1", "192.0.2.1"},
		{nil, "[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"},
		{nil, "2001:db8:1:2::1", "2001:db8:1:2::/64"},
		{nil, "[fe80::1%eth0]:80", "fe80::/64"},
		{nil, "[::1]:80", "::1"},
		{nil, "127.0.0.1:80", "127.0.0.1"},
		{nil, "@", "unknown"},
		{nil, "", "unknown"},
		{ann, "192.0.2.1:1234", "ann (https://a.example)"},
		{ann, "", "ann (https://a.example)"},
		{&auth.Principal{Subject: "bob"}, "", "bob"},
	} {
		require.Equal(t, tc.want, KeyOf(tc.p, AddrOf(tc.addr)).String(), tc.addr)
	}
}

func TestFingerprintsOfCallers(t *testing.T) {
	seen := map[uint64]Key{}
	for _, k := range []Key{
		{}, KeyOf(nil, AddrOf("192.0.2.1:1")), KeyOf(nil, AddrOf("192.0.2.2:1")), KeyOfConnection(),
		KeyOf(&auth.Principal{Issuer: "a", Subject: "b"}, netip.Addr{}),
		KeyOf(&auth.Principal{Issuer: "ab"}, netip.Addr{}), KeyOf(&auth.Principal{Subject: "ab"}, netip.Addr{}),
		KeyOf(&auth.Principal{Issuer: "a", Subject: "b", Tenant: "c"}, netip.Addr{}),
	} {
		other, known := seen[k.Fingerprint()]
		require.False(t, known, "%v and %v", k, other)
		seen[k.Fingerprint()] = k
	}
	require.Equal(t, KeyOf(nil, AddrOf("192.0.2.1:1")).Fingerprint(), KeyOf(nil, AddrOf("192.0.2.1:2")).Fingerprint())
	require.Equal(t, uint64(0xed0f3253174c7c57), KeyOf(&auth.Principal{Issuer: "https://a.example", Subject: "ann"}, netip.Addr{}).Fingerprint(),
		"other versions of the server have the same one")
}

func TestKeysAreEqualForOneCaller(t *testing.T) {
	key := func(addr string) Key { return KeyOf(nil, netip.MustParseAddr(addr)) }
	require.Equal(t, key("192.0.2.1"), key("::ffff:192.0.2.1"))
	require.Equal(t, key("2001:db8::1"), key("2001:db8::ffff:2"))
	require.NotEqual(t, key("2001:db8::1"), key("2001:db8:0:1::1"))
	require.NotEqual(t, key("192.0.2.1"), key("192.0.2.2"))
	require.NotEqual(t, Key{}, key("::1"), "as callers of whom nothing is known")
	require.NotEqual(t, KeyOfConnection(), KeyOfConnection())
	a := KeyOf(&auth.Principal{Subject: "ann"}, netip.Addr{})
	require.Equal(t, a, KeyOf(&auth.Principal{Subject: "ann", Scopes: []string{"x"}}, netip.MustParseAddr("192.0.2.1")))
	require.NotEqual(t, a, KeyOf(&auth.Principal{Subject: "ann", Tenant: "x"}, netip.Addr{}))
	require.NotEqual(t, a, KeyOf(&auth.Principal{Issuer: "i", Subject: "ann"}, netip.Addr{}))
}

func TestRecordsLiveAsLongAsTheyAreHeld(t *testing.T) {
	callers := NewTable()
	a := callerAt(callers, 1)
	require.Same(t, a, callerAt(callers, 1))
	require.NotSame(t, a, callerAt(callers, 2))
	require.Equal(t, 2, callers.Len())
	a.Release()
	require.Equal(t, 2, callers.Len(), "it is held once more")
	require.Same(t, a.Hold(), a)
	a.Release()
	a.Release()
	require.Equal(t, 1, callers.Len())
}

// A million callers that come and go, and ten thousand at once, leave no memory behind.
func TestCallersThatHaveGoneNeedNoMemory(t *testing.T) {
	callers := NewTable()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range 1_000_000 {
		callerAt(callers, i).Release()
	}
	var many []*Caller
	for i := range 10_000 {
		many = append(many, callerAt(callers, i))
	}
	for _, c := range many {
		c.Release()
	}
	many = nil
	require.Zero(t, callers.Len())
	require.Less(t, heap(), before+1<<20)
	runtime.KeepAlive(callers)
}

func TestCallersComeAndGoAtOnce(t *testing.T) {
	callers := NewTable()
	p := callers.Pool(8)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 5000 {
				c := callerAt(callers, i%7)
				if p.TryAcquire(c) {
					d := c.Hold()
					c.Release()
					p.Release(d)
				}
				c.Release()
			}
		})
	}
	wg.Wait()
	require.Zero(t, callers.Len())
	require.Equal(t, Usage{Size: 8}, p.Usage())
}

func TestCallerAllocations(t *testing.T) {
	callers := NewTable()
	p, class := callers.Pool(8), NewPool(8)
	ann := &auth.Principal{Issuer: "https://a.example", Subject: "ann"}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		for _, key := range []Key{KeyOf(nil, AddrOf("192.0.2.1:1234")), KeyOf(ann, AddrOf("[2001:db8::1]:80"))} {
			c := callers.Get(key)
			for _, p := range []*Pool{p, class} {
				if p.TryAcquire(c) {
					p.Release(c)
				}
			}
			c.Release()
		}
	}))
}

func BenchmarkCallerTakesASlot(b *testing.B) {
	callers := NewTable()
	p := callers.Pool(4096)
	key := KeyOf(nil, AddrOf("192.0.2.1:1234"))
	for _, held := range []bool{false, true} {
		b.Run(fmt.Sprintf("known=%v", held), func(b *testing.B) {
			if held {
				defer callers.Get(key).Release()
			}
			for b.Loop() {
				c := callers.Get(key)
				p.TryAcquire(c)
				p.Release(c)
				c.Release()
			}
		})
	}
}
