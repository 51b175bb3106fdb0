package streamable_test

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
)

// Each message uses one stream: a message of a request the stream of its POST, any other message
// the stream that was opened by GET, which carries no answers.
func TestEachMessageHasOneStream(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
		sid := e.session()
		res, err := e.srv.Client().Do(e.request(t.Context(), "GET", "", sid))
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, 200, res.StatusCode)
		in := bufio.NewReader(res.Body)
		next := func() string {
			t.Helper()
			for {
				line, err := in.ReadString('\n')
				require.NoError(t, err)
				if data, found := strings.CutPrefix(line, "data: "); found {
					return strings.TrimSpace(data)
				}
			}
		}
		s := e.Core.Session(strings.TrimPrefix(sid, "Mcp-Session-Id: "), nil)
		const about = `{"jsonrpc":"2.0","method":"notifications/x","params":{}}`
		for id := 1; id <= 3; id++ {
			_, body := e.post(legacy(id, "tools/call", "progress:xx"), sid)
			require.Equal(t, 2, strings.Count(body, "notifications/progress"), body)
			require.Contains(t, body, answer(id, "progress:xx"))
			require.NotContains(t, body, "notifications/x")
			_, body = e.post(legacy(id, "ping", ""), sid)
			require.Equal(t, answer(id, ""), body)
			require.NoError(t, s.Notify(t.Context(), "notifications/x", []byte(`{}`), ""))
			require.Equal(t, about, next(), "and nothing before it")
		}
		deleted, _ := e.do(e.request(t.Context(), "DELETE", "", sid))
		require.Equal(t, 204, deleted.StatusCode)
		rest, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, "\n", string(rest), "the end of the last event")
		e.Conserved()
	})
}
