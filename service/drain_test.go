package service_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// notReady waits until /readyz says no.
func (r *running) notReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, _ := r.get(t, "/readyz")
		return status == http.StatusServiceUnavailable
	}, patience, time.Millisecond)
	_, body := r.get(t, "/readyz")
	assert.Contains(t, body, "shutting down")
	status, _ := r.get(t, "/livez")
	assert.Equal(t, http.StatusOK, status)
}

func TestDrainLetsCallsFinishAndRefusesNewOnes(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv, "--drain-timeout=1h")
	handler, result := r.enter(t, g)
	r.stop()
	r.notReady(t)

	require.Eventually(t, func() bool { return r.call("echo", `{"text":""}`).status == http.StatusServiceUnavailable },
		patience, time.Millisecond)
	refused := r.call("echo", `{"text":""}`)
	require.NoError(t, refused.err)
	assert.Equal(t, string(mcp.RejectShuttingDown), refused.Error.Data.Reason)
	assert.NotEmpty(t, refused.header.Get("Retry-After"))

	assert.NoError(t, handler.Err(), "the drain timeout has not passed")
	_, body := r.get(t, "/metrics")
	assert.NotEmpty(t, body, "the drain can be watched")
	close(g.open)
	assert.Equal(t, "opened", (<-result).text())
	require.NoError(t, r.wait(t))
}

func TestDrainTimeoutCancelsWithItsCause(t *testing.T) {
	srv, g := newGated(t, false, server.WithLimits(server.Limits{CleanupGrace: time.Hour}))
	r := start(t, srv, "--drain-timeout=1ms")
	handler, result := r.enter(t, g)
	r.stop()
	<-handler.Done()
	assert.ErrorIs(t, context.Cause(handler), mcp.ErrServerShutdown)
	assert.NoError(t, (<-result).err, "the caller gets an answer")
	require.NoError(t, r.wait(t))
}

func TestDrainNamesAbandonedHandlers(t *testing.T) {
	srv, g := newGated(t, true, server.WithLimits(server.Limits{CleanupGrace: time.Millisecond}))
	r := start(t, srv, "--drain-timeout=1ms")
	_, result := r.enter(t, g)
	r.stop()
	err := r.wait(t)
	assert.ErrorIs(t, err, server.ErrAbandoned)
	assert.ErrorContains(t, err, "gated")
	close(g.open)
	<-result // an answer only if it could be written within the grace
}

// At its deadline, a drain logs the requests that /debug/requests showed before.
func TestDrainDeadlineLogsTheRequestsInFlight(t *testing.T) {
	srv, g := newGated(t, true, server.WithLimits(server.Limits{CleanupGrace: time.Millisecond}),
		server.WithAuthenticator(auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) {
			return &auth.Principal{Subject: "me\u202e" + strings.Repeat("x", 100)}, nil
		})))
	entered := make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "polite"}, func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		close(entered)
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	r := start(t, srv, "--drain-timeout=1ms", "--log-format=json")
	require.NoError(t, r.call("echo", `{"text":""}`).err)
	ctx, walkAway := context.WithCancel(t.Context())
	gone := make(chan answer, 1)
	go func() { gone <- r.call("polite", "{}", func(req *http.Request) { *req = *req.WithContext(ctx) }) }()
	<-entered
	walkAway()
	require.Error(t, (<-gone).err)
	opened, err := r.client.Post(r.MCP, "application/json", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`))
	require.NoError(t, err)
	opened.Body.Close()
	result := make(chan answer, 1)
	go func() {
		result <- r.call("gated", "{}", func(req *http.Request) {
			body := `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 1000) + `","method":"tools/call","params":{"name":"gated","arguments":{},"_meta":{` +
				`"io.modelcontextprotocol/clientInfo":{"name":"evil\u001b[2Jclient","version":"` + strings.Repeat("v", 100) + `"},` +
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		})
	}()
	<-g.entered

	var shown picture
	require.Eventually(t, func() bool { // until the fate of what was walked away from is known
		_, body := r.get(t, "/debug/requests")
		shown = picture{}
		require.NoError(t, json.Unmarshal([]byte(body), &shown))
		return len(shown.Requests) == 1
	}, patience, time.Millisecond)
	r.stop()
	require.ErrorIs(t, r.wait(t), server.ErrAbandoned)
	close(g.open)
	<-result

	logged := r.records(t, "drain.deadline")
	require.Len(t, logged, 1)
	var record struct {
		Left, Subscriptions, Tasks, Outbound int
		InFlight                             map[string]int `json:"in_flight"`
		Sessions                             map[string]int
		Totals                               map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(logged[0]), &record))
	assert.Equal(t, []int{1, 0, 0, 0}, []int{record.Left, record.Subscriptions, record.Tasks, record.Outbound})
	assert.Equal(t, map[string]int{"running": 1}, record.InFlight)
	assert.Equal(t, 1, shown.InFlight["running"])
	require.Len(t, shown.Sessions, 1)
	assert.Equal(t, map[string]int{"http": 1}, record.Sessions)
	withoutZeros(shown.Totals)
	assert.Equal(t, shown.Totals, record.Totals)
	assert.Equal(t, map[string]any{"client_disconnect": 1.0}, record.Totals["cancelled"])

	logged = r.records(t, "drain.left")
	require.Len(t, logged, 1)
	var left map[string]any
	require.NoError(t, json.Unmarshal([]byte(logged[0]), &left))
	row := shown.Requests[0]
	for shownAs, loggedAs := range map[string]string{
		"id": "id", "method": "method", "tool": "target", "state": "state", "transport": "transport", "remote": "remote",
		"client": "client", "client_version": "client_version", "trace_id": "trace_id", "span_id": "span_id",
	} {
		assert.NotEmpty(t, row[shownAs], shownAs)
		assert.Equal(t, row[shownAs], left[loggedAs], shownAs)
	}
	assert.Equal(t, "evil\ufffd[2Jclient", left["client"])
	assert.Len(t, left["client_version"], 64)
	assert.Len(t, left["id"], 256)
	assert.Equal(t, shown.Callers[0].Principal, left["principal"])
	assert.Less(t, len(logged[0]), 2000)
}

// A picture is the part of /debug/requests that is compared.
type picture struct {
	InFlight map[string]int `json:"in_flight"`
	Requests []map[string]any
	Sessions []map[string]any
	Callers  []struct{ Principal string }
	Totals   map[string]any
}

// withoutZeros removes the counts that are zero, and the groups that are then empty.
func withoutZeros(totals map[string]any) {
	for key, group := range totals {
		counts, ok := group.(map[string]any)
		if !ok {
			continue
		}
		for name, n := range counts {
			if n == 0.0 {
				delete(counts, name)
			}
		}
		if len(counts) == 0 {
			delete(totals, key)
		}
	}
}

// records returns the records of a name in the log, which is JSON.
func (r *running) records(t *testing.T, msg string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(r.stderr.String()) {
		var record struct{ Msg string }
		require.NoError(t, json.Unmarshal([]byte(line), &record), line)
		if record.Msg == msg {
			lines = append(lines, line)
		}
	}
	return lines
}
