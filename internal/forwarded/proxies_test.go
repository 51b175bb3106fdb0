package forwarded

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// trusted are the proxies of the tests.
var trusted = []string{"10.0.0.0/8", "192.168.7.1", "fd00::/8"}

func proxies(t testing.TB, entries ...string) Proxies {
	t.Helper()
	p, err := Parse(entries)
	require.NoError(t, err)
	return p
}

const (
	proxy  = "10.0.0.1:5000"
	client = "203.0.113.9"
)

func lines(values ...string) []string { return values }

func TestCallerIsTheLastUntrustedAddress(t *testing.T) {
	p := proxies(t, trusted...)
	for _, tt := range []struct {
		name, peer string
		header     map[string][]string
		want       string
	}{
		{"no header", proxy, nil, proxy},
		{"one proxy", proxy, map[string][]string{"X-Forwarded-For": lines(client)}, client},
		{"a caller that forges an address", proxy, map[string][]string{"X-Forwarded-For": lines("198.51.100.1, " + client)}, client},
		{"two proxies", proxy, map[string][]string{"X-Forwarded-For": lines(client + ", 192.168.7.1")}, client},
		{"two proxies and a forged address", proxy, map[string][]string{"X-Forwarded-For": lines("198.51.100.1," + client + ",10.2.3.4")}, client},
		{"several lines", proxy, map[string][]string{"X-Forwarded-For": lines("198.51.100.1", client, "10.2.3.4")}, client},
		{"a proxy of IPv6", "[fd00::1]:80", map[string][]string{"X-Forwarded-For": lines("2001:db8::7")}, "2001:db8::7"},
		{"IPv4 mapped to IPv6", "[::ffff:10.0.0.1]:80", map[string][]string{"X-Forwarded-For": lines("::ffff:" + client)}, client},
		{"a port", proxy, map[string][]string{"X-Forwarded-For": lines(client + ":4711")}, client},
		{"IPv6 with a port", proxy, map[string][]string{"X-Forwarded-For": lines("[2001:db8::7]:443")}, "2001:db8::7"},
		{"IPv6 in brackets", proxy, map[string][]string{"X-Forwarded-For": lines("[2001:db8::7]")}, "2001:db8::7"},
		{"a caller within the trusted network", proxy, map[string][]string{"X-Forwarded-For": lines("10.9.9.9")}, "10.9.9.9"},

		{"Forwarded", proxy, map[string][]string{"Forwarded": lines("for=" + client)}, client},
		{"all parameters", proxy, map[string][]string{"Forwarded": lines(`by=10.0.0.1;For="` + client + `:99";host=a.example;proto=https`)}, client},
		{"IPv6 in Forwarded", proxy, map[string][]string{"Forwarded": lines(`for="[2001:db8::7]:4711"`)}, "2001:db8::7"},
		{"a chain in Forwarded", proxy, map[string][]string{"Forwarded": lines(`for=198.51.100.1, for=` + client + `;proto=http, for=10.3.3.3`)}, client},
		{"both headers agree", proxy, map[string][]string{"X-Forwarded-For": lines(client), "Forwarded": lines("for=" + client)}, client},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ignored := p.Caller(tt.peer, tt.header)
			require.Equal(t, tt.want, got)
			require.False(t, ignored)
		})
	}
}

// Nothing that a caller sends chooses the address of another one.
func TestUselessHeadersLeaveTheNearestKnownAddress(t *testing.T) {
	p := proxies(t, trusted...)
	long := strings.Repeat("198.51.100.1, ", 5000)
	for _, tt := range []struct {
		name   string
		header map[string][]string
		want   string
	}{
		{"no address", map[string][]string{"X-Forwarded-For": lines("unknown")}, proxy},
		{"empty", map[string][]string{"X-Forwarded-For": lines("")}, proxy},
		{"only commas", map[string][]string{"X-Forwarded-For": lines(strings.Repeat(",", 60_000))}, proxy},
		{"no address before a proxy", map[string][]string{"X-Forwarded-For": lines(client + ", unknown, 10.5.5.5")}, "10.5.5.5"},
		{"a zone", map[string][]string{"X-Forwarded-For": lines("fe80::1%eth0")}, proxy},
		{"a long address", map[string][]string{"X-Forwarded-For": lines(strings.Repeat("1", 60_000))}, proxy},
		{"too many proxies", map[string][]string{"X-Forwarded-For": lines(client + strings.Repeat(",10.0.0.2", 40))}, "10.0.0.2"},
		{"long and true at its end", map[string][]string{"X-Forwarded-For": lines(long + client)}, client},

		{"an obfuscated node", map[string][]string{"Forwarded": lines("for=_hidden")}, proxy},
		{"for is missing", map[string][]string{"Forwarded": lines("by=203.0.113.43")}, proxy},
		{"for is there twice", map[string][]string{"Forwarded": lines("for=198.51.100.1;for=" + client)}, proxy},
		{"an open quote before the proxy's element", map[string][]string{"Forwarded": lines(`for="198.51.100.1, for=` + client)}, proxy},
		{"an open quote before a quoted element", map[string][]string{"Forwarded": lines(`for=198.51.100.1;x=", for="` + client + `"`)}, proxy},
		{"an escape before the proxy's element", map[string][]string{"Forwarded": lines(`for=198.51.100.1;x="\, for="` + client + `"`)}, proxy},
		{"a long line", map[string][]string{"Forwarded": lines(strings.Repeat("for=198.51.100.1, ", 5000) + "for=" + client)}, proxy},
		{"two headers contradict each other", map[string][]string{"X-Forwarded-For": lines(client), "Forwarded": lines("for=198.51.100.1")}, proxy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := p.Caller(proxy, tt.header)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestAnUntrustedPeerIsTheCaller(t *testing.T) {
	header := map[string][]string{"X-Forwarded-For": lines("198.51.100.1")}
	for _, peer := range []string{"203.0.113.9:1", "[2001:db8::7]:1", "@", ""} {
		for _, p := range []Proxies{{}, proxies(t, trusted...)} {
			got, ignored := p.Caller(peer, header)
			require.Equal(t, peer, got)
			require.True(t, ignored)
			got, ignored = p.Caller(peer, nil)
			require.Equal(t, peer, got)
			require.False(t, ignored)
		}
	}
}

func TestParseRefusesWhatIsNoNetwork(t *testing.T) {
	for entry, want := range map[string]string{
		"": "is no network", "proxy.example": "is no network", "10.0.0.0/33": "is no network", "10.0.0.1:80/8": "is no network",
		"fe80::1%eth0": "is no network", "0.0.0.0/0": "all addresses", "::/0": "all addresses", "::ffff:0.0.0.0/96": "all addresses",
	} {
		_, err := Parse([]string{"10.0.0.1", entry})
		require.ErrorContains(t, err, want, entry)
	}
	p := proxies(t, "10.1.2.3/8", "::ffff:192.0.2.0/120")
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}, p.networks)
}

// A request without such a header costs no allocation, and neither does a peer that is not
// trusted.
func TestCallerAllocations(t *testing.T) {
	p := proxies(t, trusted...)
	long := map[string][]string{"X-Forwarded-For": lines(strings.Repeat("198.51.100.1, ", 4000))}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		p.Caller(proxy, nil)
		p.Caller("203.0.113.9:1", long)
	}))
}

func FuzzCaller(f *testing.F) {
	f.Add("203.0.113.9, 10.0.0.2", "for=203.0.113.9")
	f.Add("[2001:db8::1]:80", `for="[2001:db8::1]:80";by=_x`)
	f.Add("", `for="\"`)
	p := proxies(f, trusted...)
	f.Fuzz(func(t *testing.T, forwardedFor, forwarded string) {
		// A proxy appends the address of its caller. Whatever the caller has sent, that one is found.
		got, _ := p.Caller(proxy, map[string][]string{"X-Forwarded-For": lines(forwardedFor + ", " + client)})
		require.Equal(t, client, got)
		got, _ = p.Caller(proxy, map[string][]string{"Forwarded": lines(forwarded + `, for="` + client + `"`)})
		if got != proxy { // a line that cannot be read tells nothing
			require.Equal(t, client, got)
		}
	})
}
