package streamable_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
)

// The log names the sender of a malformed message, and of a request that was refused for its
// Host or Origin. Values from the client are cut and cannot forge a line.
func TestSenderIsInTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		header header
		body   string
		status int
		want   []string
	}{
		"no message": {"X-Any: x", "{", 400, []string{"msg=frame.malformed", "reason=parse_error"}},
		"Host":       {"Host: evil.example", modern(1, "echo"), 403, []string{"msg=http.refused", "reason=host", "host=evil.example"}},
		"Origin":     {"Origin: https://evil.example", modern(1, "echo"), 403, []string{"msg=http.refused", "reason=origin", `https://evil.example`}},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			f := newFake(t, limits.Limits{}, slog.New(slog.NewTextHandler(&log, nil)))
			r := httptest.NewRequest("POST", "/mcp", strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("User-Agent", "lost\nlevel=ERROR"+strings.Repeat("x", 1000))
			setHeader(r, c.header)
			w := httptest.NewRecorder()
			streamable.New(f.Core, streamable.Config{AllowedHosts: []string{"example.com"}}).ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code, w.Body)
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			require.Len(t, lines, 1)
			require.Less(t, len(lines[0]), 700)
			for _, part := range append(c.want, "level=INFO", "remote=192.0.2.1:1234", `agent="lost`, "silenced=0") {
				require.Contains(t, lines[0], part)
			}
		})
	}
}
