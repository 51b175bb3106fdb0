package service_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/service"
)

// The pages of the service and those of the program need the token; health checks and metrics do
// not. Every answer forbids browsers to guess its type.
func TestAdminTokenOfARunningProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte("a-token-of-an-operator\n"), 0o600))
	srv, _ := newGated(t, false)
	r := start(t, srv, "--admin-token-file="+path)
	for page, open := range map[string]bool{
		"/livez": true, "/readyz": true, "/metrics": true,
		"/": false, "/debug/requests": false, "/debug/traces": false, "/debug/live": false, "/debug/pprof/": false, "/debug/flight": false, "/nothing": false,
	} {
		resp, _ := r.do(t, http.MethodGet, r.Admin+page, "")
		require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"), page)
		if open {
			require.Equal(t, http.StatusOK, resp.StatusCode, page)
			continue
		}
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode, page)
		if page != "/debug/live" && page != "/nothing" && page != "/debug/flight" {
			resp, _ = r.do(t, http.MethodGet, r.Admin+page, "", "Authorization", "Bearer a-token-of-an-operator")
			require.Equal(t, http.StatusOK, resp.StatusCode, page)
			require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"), page)
		}
	}
}

func TestRunWithoutItsAdminTokenFile(t *testing.T) {
	srv, _ := newGated(t, false)
	err := service.Run(t.Context(), srv, quiet("--admin-token-file=/does/not/exist")...)
	require.ErrorContains(t, err, "service: admin token: open /does/not/exist")
}
