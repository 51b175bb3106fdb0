package service_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// slowly calls the tool slow in a session, and returns the stream that answers after its first event.
func (r *running) slowly(t *testing.T) io.Reader {
	t.Helper()
	legacy := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	resp, _ := r.do(t, http.MethodPost, r.MCP, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, legacy...)
	legacy = append(legacy, "Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
	r.do(t, http.MethodPost, r.MCP, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacy...)
	req, err := http.NewRequest(http.MethodPost, r.MCP, strings.NewReader(
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":1}}}`))
	require.NoError(t, err)
	for i := 0; i < len(legacy); i += 2 {
		req.Header.Set(legacy[i], legacy[i+1])
	}
	resp, err = r.client.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp.Body
}

// Each action has a record in the audit with its operator, also one that was refused.
func TestEachActionIsAudited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	srv, _ := newGated(t, false)
	release := make(chan struct{})
	defer close(release)
	server.AddTool(srv, server.Tool{Name: "slow"}, func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		if err := c.Progress(1, 2, ""); err != nil {
			return "", err
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "", context.Cause(ctx)
	})
	r := start(t, srv, "--admin-actions", "--admin-token-file="+adminTokenFile(t), "--audit-file="+file)
	stream := r.slowly(t)
	request, sessions := r.keysOf(t, "slow")
	require.Len(t, request, 1)
	require.Len(t, sessions, 1)

	key, of := `{"key":"`+request[0]+`"}`, `{"key":"`+sessions[0]+`"}`
	for _, c := range []struct {
		action, body string
		headers      []string
		want         int
	}{
		{"end_session", of, []string{"Origin", r.Admin}, 403},
		{"close_stream", key, []string{"Content-Type", "text/plain"}, 415},
		{"close_stream", key, nil, 200},
		{"log_level", `{"level":"info"}`, nil, 200},
		{"profile", `{"profile":"mutex","seconds":1,"rate":1}`, nil, 200},
		{"end_session", of, nil, 200},
		{"drain", "{}", nil, 200},
	} {
		status, body := r.act(t, c.action, c.body, c.headers...)
		require.Equal(t, c.want, status, "%s: %s", c.action, body)
	}
	_, err := io.Copy(io.Discard, stream)
	require.NoError(t, err)
	require.NoError(t, r.wait(t))
	all, err := os.ReadFile(file)
	require.NoError(t, err)
	const by = `"issuer":"admin-token","subject":"operator"`
	for _, want := range []string{
		by + `.*"operation":"admin/close_stream","target":"` + request[0] + `".*"outcome":"ok"`,
		by + `.*"operation":"admin/log_level".*"outcome":"ok"`,
		by + `.*"operation":"admin/profile".*"outcome":"ok"`,
		by + `.*"operation":"admin/end_session","target":"` + sessions[0] + `".*"outcome":"ok"`,
		by + `.*"operation":"admin/drain".*"outcome":"ok"`,
		by + `.*"operation":"admin/end_session".*"reason":"[^"]*Origin header".*"outcome":"error","error_code":403`,
		by + `.*"operation":"admin/close_stream".*"reason":"want Content-Type: application/json".*"outcome":"error","error_code":415`,
	} {
		require.Regexp(t, want, string(all))
	}
}

// Orders with no name behind them are counted in the audit: the record of a minute says how many there were.
func TestOrdersWithoutANameAreCountedInTheAudit(t *testing.T) {
	for name, tt := range map[string]struct {
		credentials []string
		headers     []string
		status      int
		reason      string
	}{
		"no token":         {subjects(t), []string{"Authorization", ""}, http.StatusUnauthorized, "an action needs a token "},
		"a wrong token":    {[]string{"--admin-token-file=" + adminTokenFile(t)}, []string{"Authorization", "Bearer guess"}, http.StatusUnauthorized, "the token is wrong"},
		"an opaque origin": {[]string{"--admin-token-file=" + adminTokenFile(t)}, []string{"Origin", "null"}, http.StatusForbidden, "the origin is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.jsonl")
			srv, _ := newGated(t, false)
			r := start(t, srv, append(tt.credentials, "--admin-actions", "--audit-file="+file)...)
			for range 3 {
				status, body := r.act(t, "drain", "{}", tt.headers...)
				require.Equal(t, tt.status, status, body)
			}
			_, metrics := r.get(t, "/metrics")
			require.True(t, strings.Contains(metrics, `vitrine_admin_actions_total{action="drain",outcome="refused"} 3`), "the metric counts the orders")
			r.stop()
			require.NoError(t, r.wait(t))
			all, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NotContains(t, string(all), "admin/drain")
			counted := regexp.MustCompile(`"address":"127.0.0.0/24",.*"operation":"audit/refused","decision":"refused","reason":"` +
				tt.reason + `.*"stage":"token","outcome":"refused","error_code":` + strconv.Itoa(tt.status) + `.*"count":(\d)`)
			sum := 0 // of two minutes, if one ends between the orders
			for _, found := range counted.FindAllStringSubmatch(string(all), -1) {
				n, err := strconv.Atoi(found[1])
				require.NoError(t, err)
				sum += n
			}
			require.Equal(t, 3, sum, string(all))
		})
	}
}

// subjects returns the arguments by which callers of the server can be operators.
func subjects(t *testing.T) []string {
	t.Helper()
	return []string{"--auth-tokens-file=" + tokensFile(t, "bob's token", "bob"), "--admin-subjects=ann"}
}
