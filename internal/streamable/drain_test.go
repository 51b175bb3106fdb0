package streamable_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A request that came before a shutdown was announced, and is answered after that, asks the client to connect elsewhere: a connection
// that is closed later, while it is idle, may be closed just when the next request comes.
func TestAnswersAfterTheAnnouncementCloseTheConnection(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid := e.session()
	answered := e.waiting(sid)
	res, _ := e.do(e.request(t.Context(), "POST", legacy(2, "ping", ""), sid))
	require.False(t, res.Close)
	e.Core.Leave()
	e.Release <- struct{}{}
	res = <-answered
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.True(t, res.Close, "Connection: close")
	res, body := e.do(e.request(t.Context(), "PUT", "", sid))
	require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode, "it is served: %s", body)
	require.True(t, res.Close)
}

// While the server drains, every response asks the client to connect elsewhere, and no new
// stream stays open.
func TestResponsesOfADrainCloseTheConnection(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid, other := e.session(), e.session()
	own, err := e.srv.Client().Do(e.request(t.Context(), "GET", "", sid))
	require.NoError(t, err)
	defer own.Body.Close()
	answered := e.waiting(sid)
	drained := make(chan error, 1)
	go func() { drained <- e.Core.Shutdown(context.Background()) }()
	for !e.Core.Draining() { //nolint:revive // a spin of microseconds: there is nothing to wait for
	}
	_, _ = own.Body.Read(make([]byte, 1)) // ends when the session is closed

	const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	for _, step := range []struct {
		name, method, body string
		headers            []header
		status             int
	}{
		{"new stream", "GET", "", []header{sid}, 503},
		{"stream of another session", "GET", "", []header{other}, 503},
		{"notification", "POST", initialized, []header{sid}, 202},
		{"modern notification", "POST", initialized, []header{"Mcp-Protocol-Version: 2026-07-28"}, 202},
		{"no message", "POST", `{}`, nil, 400},
		{"no such method", "PUT", "", nil, 405},
		{"no such session", "GET", "", []header{sid + "x"}, 404},
		{"request", "POST", legacy(2, "ping", ""), []header{sid}, 503},
		{"end of a session", "DELETE", "", []header{other}, 204},
	} {
		res, body := e.do(e.request(t.Context(), step.method, step.body, step.headers...))
		require.Equal(t, step.status, res.StatusCode, "%s: %s", step.name, body)
		require.True(t, res.Close, "%s: Connection: close", step.name)
		if step.status == http.StatusServiceUnavailable {
			require.Equal(t, "1", res.Header.Get("Retry-After"), step.name)
			require.Contains(t, body, `"reason":"shutting_down"`, step.name)
		}
	}
	e.Release <- struct{}{}
	res := <-answered
	require.Equal(t, 200, res.StatusCode)
	require.True(t, res.Close, "Connection: close")
	require.NoError(t, <-drained)
	require.EqualValues(t, 2, e.Core.Snapshot().Counters.ExchangesRefused[mcp.RefuseShuttingDown])
}
