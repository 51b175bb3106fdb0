package service_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/service"
)

// A request with too many headers is refused on both listeners, at every path, before the program's
// middleware and routes see it.
func TestTooManyHeadersAreRefused(t *testing.T) {
	held := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a handler has got the headers") })
	r := startWith(t,
		service.WithHTTPMiddleware(func(http.Handler) http.Handler { return held }),
		service.WithHTTPHandler("/own", held), service.WithAdminHandler("/own", held))
	for _, url := range []string{r.MCP, strings.TrimSuffix(r.MCP, "/mcp") + "/own", r.MCP + "/nothing", r.Admin + "/livez", r.Admin + "/own"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		for i := range 101 {
			req.Header.Set(fmt.Sprint("X-", i), "")
		}
		resp, err := r.client.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode, url)
	}
	_, body := r.get(t, "/metrics")
	assert.Contains(t, body, `vitrine_limit_reached_total{limit="max_headers"} 5`)
	assert.Contains(t, body, `vitrine_http_refused_total{reason="too_many_headers"} 3`)
}
