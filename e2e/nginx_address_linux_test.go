package e2e

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A replica that trusts nginx knows the address of each client, and not the one that a client has
// made up. Without that trust nginx is the caller, and the log says so.
func TestNginxForwardsTheAddressOfTheClient(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"trusted":     {[]string{"--trusted-proxies", "127.0.0.1"}, "127.0.0.7"},
		"not trusted": {nil, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := replicas(t, 3, withArgs(tt.args...))
			front := proxy(t, all)
			r := sleeping(1)
			h := r.headers()
			h.Set("X-Forwarded-For", "203.0.113.9")
			h.Set("Forwarded", "for=203.0.113.9")
			client := httpClient(t)
			client.Transport.(*http.Transport).DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 7)}}).DialContext
			p := front.beginWith(t, client, h, r.frame())
			s := holder(t, all)
			rep, err := s.requests()
			if err != nil {
				t.Fatal(err)
			}
			remote := rep.Requests[0].Remote
			if host, _, err := net.SplitHostPort(remote); err == nil {
				remote = host
			}
			if remote != tt.want {
				t.Errorf("the address of the client is %q, want %q", remote, tt.want)
			}
			p.drop()
			if warned := strings.Contains(s.stderr.text(), "proxy.untrusted"); warned != (tt.args == nil) {
				t.Errorf("the log warns of nginx: %v", warned)
			}
		})
	}
}
