package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

func TestShop(t *testing.T) {
	app, err := newShop(prometheus.NewRegistry())
	require.NoError(t, err)
	web := httptest.NewServer(app.mux)
	defer web.Close()
	get := func(path string) (int, string) {
		t.Helper()
		res, err := web.Client().Get(web.URL + path)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(body)
	}

	status, text := get("/healthz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "stock: not loaded yet")
	require.NoError(t, app.start(t.Context()))
	status, _ = get("/healthz")
	require.Equal(t, http.StatusOK, status)

	tools, err := servertest.Connect(t, app.srv).ListTools(t.Context())
	require.NoError(t, err)
	require.Len(t, tools, 1)
	out, err := app.lookup(t.Context(), nil, stockIn{Article: "lamp"})
	require.NoError(t, err)
	require.Equal(t, 12, out.Count)
	_, err = app.lookup(t.Context(), nil, stockIn{Article: "sofa"})
	require.ErrorContains(t, err, `no article "sofa"`)
	status, _ = get("/metrics")
	require.Equal(t, http.StatusOK, status)

	require.NoError(t, app.srv.Shutdown(t.Context()))
	status, _ = get("/healthz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NoError(t, app.tel.Shutdown(t.Context()))
}

func TestClosedOnSundays(t *testing.T) {
	var now time.Time
	srv := server.New("shop", "1", server.WithTelemetry(telemetry.Disabled()),
		server.WithMiddleware(closed(func() time.Time { return now })))
	server.AddTool(srv, server.Tool{Name: "x"},
		func(context.Context, *server.Call, struct{}) (string, error) { return "open", nil })
	client := servertest.Connect(t, srv)
	for day, want := range map[int]string{7: "open", 8: "The warehouse is closed on Sundays.", 9: "open"} {
		now = time.Date(2026, time.November, day, 12, 0, 0, 0, time.UTC)
		result, err := client.CallTool(t.Context(), "x", nil)
		require.NoError(t, err)
		require.Equal(t, want, result.Text())
	}
	_, err := client.Call(t.Context(), mcp.MethodServerDiscover, nil)
	require.NoError(t, err)
}
