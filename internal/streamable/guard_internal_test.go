package streamable

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// On every listener a guard allows hosts that cannot be rebound, and names that are listed.
func TestGuardAllowsAddressesAndListedNames(t *testing.T) {
	const loopback, pod, unknown = "127.0.0.1:9464", "10.1.2.3:9464", ""
	type hosts = []string
	for _, tt := range []struct {
		name         string
		hosts        hosts
		local        string // the address of the listener
		host, origin string
		want         mcp.RefuseReason
	}{
		{"probe of a pod", nil, pod, "10.1.2.3:9464", "", ""},
		{"address in front of it", nil, pod, "192.0.2.1", "", ""},
		{"v6", nil, pod, "[2001:db8::1]:9464", "", ""},
		{"v6 without a port", nil, pod, "[2001:db8::1]", "", ""},
		{"v6 with a zone", nil, pod, "[fe80::1%25eth0]:9464", "", ""},
		{"published port", nil, pod, "localhost:9464", "", ""},
		{"HTTP/1.0", nil, pod, "", "", ""},
		{"name of a service", nil, pod, "mcp.prod.svc:9464", "", mcp.RefuseHost},
		{"listed name", hosts{"mcp.prod.svc"}, pod, "MCP.prod.svc:9464", "", ""},
		{"listed name and port", hosts{"mcp.prod.svc:1"}, pod, "mcp.prod.svc:9464", "", mcp.RefuseHost},
		{"another name", hosts{"mcp.prod.svc"}, pod, "evil.example", "", mcp.RefuseHost},
		{"address beside a list", hosts{"mcp.prod.svc"}, pod, "10.1.2.3", "", ""},
		{"any name", hosts{"*"}, pod, "evil.example", "", ""},
		{"name that begins like an address", nil, pod, "10.1.2.3.evil.example", "", mcp.RefuseHost},
		{"name that ends well", nil, pod, "evil.localhost", "", mcp.RefuseHost},
		{"address with a dot", nil, pod, "10.1.2.3.", "", mcp.RefuseHost},
		{"no listener", nil, unknown, "evil.example", "", mcp.RefuseHost},
		{"loopback", nil, loopback, "127.0.0.1:9464", "", ""},
		{"loopback, sidecar", nil, loopback, "10.1.2.3:9464", "", ""},
		{"loopback, rebound", nil, loopback, "evil.example:9464", "", mcp.RefuseHost},

		{"own page", nil, pod, "10.1.2.3:9464", "http://10.1.2.3:9464", ""},
		{"own page, published port", nil, pod, "localhost:9464", "http://localhost:9464", ""},
		{"own page of a listed name", hosts{"box.example"}, pod, "box.example", "https://box.example", ""},
		{"own page, any name", hosts{"*"}, pod, "box.example", "https://box.example", ""},
		{"page of another address", nil, pod, "10.1.2.3:9464", "http://10.1.2.4:9464", mcp.RefuseOrigin},
		{"page of another port", nil, pod, "localhost:9464", "http://localhost:3000", mcp.RefuseOrigin},
		{"foreign page", nil, pod, "10.1.2.3:9464", "https://evil.example", mcp.RefuseOrigin},
		{"page without a host", nil, pod, "", "null", mcp.RefuseOrigin},
		{"loopback, page of another port", nil, loopback, "localhost:9464", "http://localhost:3000", ""},
		{"loopback, foreign page", nil, loopback, "localhost:9464", "https://evil.example", mcp.RefuseOrigin},
		{"Host comes first", nil, pod, "evil.example", "https://evil.example", mcp.RefuseHost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/metrics", nil)
			if tt.local != "" {
				addr, err := net.ResolveTCPAddr("tcp", tt.local)
				require.NoError(t, err)
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
			}
			r.Host = tt.host
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			passed := false
			next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true })
			told := mcp.RefuseReason("")
			Guard{Hosts: tt.hosts, Refuse: func(_ http.ResponseWriter, _ *http.Request, reason mcp.RefuseReason) {
				told = reason
			}}.Wrap(next).ServeHTTP(httptest.NewRecorder(), r)
			require.Equal(t, tt.want, told)
			require.Equal(t, tt.want == "", passed)

			rec := httptest.NewRecorder()
			Guard{Hosts: tt.hosts}.Wrap(next).ServeHTTP(rec, r)
			if tt.want != "" {
				require.Equal(t, http.StatusForbidden, rec.Code)
				require.Regexp(t, `^(Host|Origin) ".+" is not allowed\n$`, rec.Body.String())
			}
		})
	}
}
