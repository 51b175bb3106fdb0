package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// The client says in each request that it is somebody else.
const impostor = "admin"

// whoami calls the tool that says who calls, with a token, as a client that claims to be somebody else.
func (s *server) whoami(t *testing.T, token string) answer {
	t.Helper()
	r := call(1, "whoami", object{})
	h := r.headers()
	h.Set("X-Forwarded-User", impostor)
	h.Set("X-Forwarded-Tenant", impostor)
	h.Set("X-Forwarded-Scopes", "demo:admin")
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return s.send(t, http.MethodPost, h, r.frame())
}

// checkCaller checks who calls with a token, and that nobody calls without one.
func (s *server) checkCaller(t *testing.T) {
	t.Helper()
	if a := s.whoami(t, "the-token-of-ann"); a.status != http.StatusOK || !strings.Contains(a.body, `"subject":"ann"`) ||
		!strings.Contains(a.body, `"scopes":["demo:read"]`) || !strings.Contains(a.body, `"tenant":""`) {
		t.Errorf("with a token: %d %s", a.status, a.body)
	}
	for _, token := range []string{"", "wrong"} {
		if a := s.whoami(t, token); a.status != http.StatusUnauthorized || strings.Contains(a.body, impostor) {
			t.Errorf("token %q: %d %s", token, a.status, a.body)
		}
	}
}

// Behind nginx the server knows callers by their tokens, although it would believe nginx: nginx
// passes on no header in which a client says who it is.
func TestNginxPassesTokensOn(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	line := fmt.Sprintf("%x ann scopes=demo:read\n", sha256.Sum256([]byte("the-token-of-ann")))
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy(t, replicas(t, 3, withArgs("--auth-tokens-file", file, "--auth-proxy-header", "X-Forwarded-User",
		"--auth-proxy-tenant-header", "X-Forwarded-Tenant", "--auth-proxy-scopes-header", "X-Forwarded-Scopes",
		"--trusted-proxies", "127.0.0.1"))).checkCaller(t)
}

// Behind nginx with a gateway the server knows callers by what the gateway says, and the token stays
// with the gateway. The gateway is asked for each request.
func TestNginxAsksAGateway(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-token-of-ann" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Auth-Request-User", "ann")
		w.Header().Set("X-Auth-Request-Scopes", "demo:read")
		w.WriteHeader(http.StatusAccepted)
	}))
	defer gateway.Close()
	all := replicas(t, 3, withArgs("--auth-proxy-header", "X-Forwarded-User",
		"--auth-proxy-tenant-header", "X-Forwarded-Tenant", "--auth-proxy-scopes-header", "X-Forwarded-Scopes",
		"--trusted-proxies", "127.0.0.1"))
	proxy(t, all, "include mcp_token.conf;", "include mcp_gateway.conf;", "http://127.0.0.1:4180", gateway.URL).checkCaller(t)
}
