package streamable_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
)

// postChunked sends a request in chunks, with so many lines after its body, and returns the response.
func postChunked(t *testing.T, addr, path, body string, trailers int) (status int, answer string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	var after strings.Builder
	for i := range trailers {
		fmt.Fprintf(&after, "X-%d:\r\n", i)
	}
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n%s\r\n",
		path, addr, len(body), body, &after)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// The lines after a body count as header lines.
func TestTooManyTrailersAreRefused(t *testing.T) {
	f := newFake(t, limits.Limits{MaxHeaders: 10})
	h := streamable.New(f.Core, streamable.Config{})
	srv := httptest.NewServer(h)
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	status, _ := postChunked(t, addr, "/", "{}", 5)
	require.Equal(t, 400, status, "no message")
	status, answer := postChunked(t, addr, "/", "{}", 11)
	require.Equal(t, 431, status)
	require.JSONEq(t, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"the header and the trailer have more than 10 lines: max_headers is reached",`+
		`"data":{"limit":"max_headers"}}}`, answer)
	require.EqualValues(t, 1, f.Conserved().LimitsReached[limits.NameHeaders])
}
