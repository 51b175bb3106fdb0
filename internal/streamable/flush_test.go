package streamable_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A program may wrap the endpoint in a handler that hides Flush. Plain answers still work. The
// client and, once, the log learn that event streams do not.
func TestWriterWithoutFlushIsReported(t *testing.T) {
	var log bytes.Buffer
	f := newFake(t, limits.Limits{}, slog.New(slog.NewTextHandler(&log, nil)))
	srv := httptest.NewServer(http.TimeoutHandler(streamable.New(f.Core, streamable.Config{}), time.Minute, ""))
	defer srv.Close()
	do := func(method, body string, headers ...header) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		for _, h := range headers {
			setHeader(req, h)
		}
		res, err := srv.Client().Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res, string(text)
	}
	res, body := do("POST", legacy(1, "initialize", ""))
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, answer(1, "welcome"), body)
	sid := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	_, body = do("POST", legacy(2, "ping", "x"), sid)
	require.Equal(t, answer(2, ""), body, "the session lives")
	res, body = do("POST", modern(3, "progress:x"), modernHeaders("tools/call", "progress:x")...)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.Equal(t, answer(3, "progress:x"), body, "without its notification")

	wrong := "hides Flush"
	res, body = do("GET", "", sid, "Accept: text/event-stream")
	require.Equal(t, 500, res.StatusCode)
	require.Contains(t, body, wrong)
	res, body = do("POST", legacy(4, "ping", ""), sid, "Accept: text/event-stream")
	require.Equal(t, 500, res.StatusCode)
	require.Contains(t, body, wrong)

	c := f.Conserved()
	_, sent, _, lost := c.Totals()
	require.EqualValues(t, 3, sent)
	require.Zero(t, lost)
	require.Equal(t, map[mcp.RefuseReason]uint64{mcp.RefuseNoFlush: 2}, c.ExchangesRefused)
	require.Equal(t, 1, strings.Count(log.String(), "http.flush_unsupported"))
	require.Contains(t, log.String(), "timeoutWriter")
}
