package check

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// balance serves like a Service for one client: with affinity it keeps one replica, without it
// it alternates. It returns the URL of the endpoint.
func balance(t *testing.T, affinity bool, replicas ...string) string {
	t.Helper()
	var targets []*url.URL
	for _, r := range replicas {
		u, err := url.Parse(r)
		require.NoError(t, err)
		targets = append(targets, u)
	}
	var turn atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			target := targets[0]
			if !affinity {
				target = targets[turn.Add(1)%uint64(len(targets))]
			}
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL + targets[0].Path
}
