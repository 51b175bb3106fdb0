package service_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/service"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

const operatorToken = "Bearer a-token-of-an-operator"

// act sends an order of an operator. more are headers that replace those of an operator.
func (r *running) act(t *testing.T, action, body string, more ...string) (status int, text string) {
	t.Helper()
	headers := append([]string{"Authorization", operatorToken, "Content-Type", "application/json"}, more...)
	resp, text := r.do(t, http.MethodPost, r.Admin+"/debug/actions/"+action, body, headers...)
	return resp.StatusCode, text
}

// keys returns the keys of the calls of the tool gated and of the sessions, as /debug/requests has them.
func (r *running) keys(t *testing.T) (requests, sessions []string) {
	t.Helper()
	return r.keysOf(t, "gated")
}

func (r *running) keysOf(t *testing.T, tool string) (requests, sessions []string) {
	t.Helper()
	_, body := r.do(t, http.MethodGet, r.Admin+"/debug/requests", "", "Authorization", operatorToken)
	var page struct{ Requests, Sessions []struct{ Key, Tool string } }
	require.NoError(t, json.Unmarshal([]byte(body), &page), body)
	for _, row := range page.Requests {
		if row.Tool == tool {
			requests = append(requests, row.Key)
		}
	}
	for _, row := range page.Sessions {
		sessions = append(sessions, row.Key)
	}
	return requests, sessions
}

func TestOperatorEndsARequestOverHTTP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	srv, g := newGated(t, false)
	r := start(t, srv, "--admin-actions", "--admin-token-file="+adminTokenFile(t), "--audit-file="+file)
	handler, result := r.enter(t, g)
	requests, _ := r.keys(t)
	require.Len(t, requests, 1)

	status, body := r.act(t, "end_request", `{"key":"`+requests[0]+`"}`)
	require.Equal(t, http.StatusOK, status, body)
	require.JSONEq(t, `{"action":"end_request","key":"`+requests[0]+`","method":"tools/call","tool":"gated","request_id":"1",
		"did":"the caller got an error with the reason operator, and the handler was cancelled"}`, body)
	require.Equal(t, "operator", (<-result).Error.Data.Reason)
	<-handler.Done()
	cause, _ := mcp.CauseOf(handler)
	require.Equal(t, mcp.CauseOperator, cause)
	status, body = r.act(t, "end_request", `{"key":"`+requests[0]+`"}`)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, body, `"error": "it has ended"`)

	require.Regexp(t, `msg=admin.action action=end_request key=r\d+ operator="operator \(admin-token\)" remote=\S+ outcome=done`, r.stderr.String())
	_, metrics := r.get(t, "/metrics")
	require.Contains(t, metrics, `vitrine_admin_actions_total{action="end_request",outcome="done"} 1`)
	require.Contains(t, metrics, `vitrine_admin_actions_total{action="end_request",outcome="refused"} 1`)
	require.Regexp(t, `vitrine_requests_cancelled_total\{cause="operator",.*tool="gated"\} 1`, metrics)
	r.stop()
	require.NoError(t, r.wait(t))
	records, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Regexp(t, `"issuer":"admin-token","subject":"operator".*"operation":"admin/end_request","target":"`+requests[0]+`".*"outcome":"ok"`, string(records))
	require.Regexp(t, `"operation":"admin/end_request".*"reason":"it has ended".*"outcome":"error","error_code":409`, string(records))
	require.Regexp(t, `"operation":"tools/call".*"cause":"operator"`, string(records))
}

// What is refused changes nothing: the request goes on, and the process serves.
func TestActionsAreRefused(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv, "--admin-actions", "--admin-token-file="+adminTokenFile(t))
	_, result := r.enter(t, g)
	requests, _ := r.keys(t)
	good := `{"key":"` + requests[0] + `"}`
	for name, c := range map[string]struct {
		action, body string
		headers      []string
		want         int
	}{
		"no token":          {"end_request", good, []string{"Authorization", ""}, 401},
		"a wrong token":     {"end_request", good, []string{"Authorization", operatorToken + "x"}, 401},
		"an origin":         {"end_request", good, []string{"Origin", r.Admin}, 403},
		"a null origin":     {"end_request", good, []string{"Origin", "null"}, 403},
		"another site":      {"end_request", good, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a form":            {"end_request", good, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"a text":            {"end_request", good, []string{"Content-Type", "text/plain"}, 415},
		"no type":           {"end_request", good, []string{"Content-Type", ""}, 415},
		"no action":         {"fly", good, nil, 404},
		"no body":           {"end_request", "", nil, 400},
		"no object":         {"end_request", "[]", nil, 400},
		"two objects":       {"end_request", good + good, nil, 400},
		"another field":     {"end_request", `{"id":1}`, nil, 400},
		"a large body":      {"end_request", `{"key":"` + strings.Repeat("r", 5<<20) + `"}`, nil, 413},
		"no key":            {"end_request", "{}", nil, 404},
		"a key in capitals": {"end_request", `{"Key":"r1"}`, nil, 400},
		"two keys":          {"end_request", `{"key":"r1","key":"r2"}`, nil, 400},
		"no UTF-8":          {"end_request", "{\"key\":\"r\xff\"}", nil, 400},
		"an unknown key":    {"end_request", `{"key":"r999999"}`, nil, 404},
		"another kind":      {"end_session", good, nil, 404},
		"no stream":         {"close_stream", good, nil, 409},
		"no level":          {"log_level", "{}", nil, 400},
		"another level":     {"log_level", `{"level":"loud"}`, nil, 400},
		"a quieter log":     {"log_level", `{"level":"error"}`, nil, 400},
		"a negative time":   {"log_level", `{"level":"debug","seconds":-1}`, nil, 400},
		"a long retry":      {"close_stream", `{"key":"r1","retry_seconds":1e10}`, nil, 400},
		"a negative retry":  {"close_stream", `{"key":"r1","retry_seconds":-1}`, nil, 400},
		"no profile":        {"profile", `{"seconds":1}`, nil, 400},
		"another profile":   {"profile", `{"profile":"heap","seconds":1}`, nil, 400},
		"no time":           {"profile", `{"profile":"mutex"}`, nil, 400},
		"a long time":       {"profile", `{"profile":"mutex","seconds":61}`, nil, 400},
		"a negative rate":   {"profile", `{"profile":"mutex","seconds":1,"rate":-1}`, nil, 400},
	} {
		status, body := r.act(t, c.action, c.body, c.headers...)
		require.Equal(t, c.want, status, "%s: %.200s", name, body)
		require.NotEmpty(t, body, name)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodHead} {
		resp, _ := r.do(t, method, r.Admin+"/debug/actions/end_request", "", "Authorization", operatorToken, "Content-Type", "application/json")
		require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, method)
	}
	status, body := r.act(t, "log_level", `{"level":"info"}`)
	require.Equal(t, http.StatusOK, status, body)
	after, _ := r.keys(t)
	require.Equal(t, requests, after)
	close(g.open)
	require.Equal(t, "opened", (<-result).text())
}

// An action needs a name behind it, also on this machine.
func TestActionsNeedACredential(t *testing.T) {
	srv, _ := newGated(t, false)
	err := service.Run(t.Context(), srv, quiet("--admin-actions")...)
	require.ErrorContains(t, err, "--admin-actions needs --admin-token-file or --admin-subjects, also on a loopback address")
	srv, _ = newGated(t, false)
	err = service.Run(t.Context(), srv, quiet("--admin-actions", "--admin-addr=off", "--admin-token-file="+adminTokenFile(t))...)
	require.ErrorContains(t, err, "--admin-actions needs the admin listener")

	srv, _ = newGated(t, false)
	r := start(t, srv, "--admin-token-file="+adminTokenFile(t))
	status, body := r.act(t, "drain", "{}")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "actions are off: --admin-actions")
	resp, _ := r.do(t, http.MethodGet, r.Admin+"/debug/actions/", "", "Authorization", operatorToken)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

func TestOperatorDrains(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv, "--admin-actions", "--admin-token-file="+adminTokenFile(t))
	_, result := r.enter(t, g)
	status, body := r.act(t, "drain", "{}")
	require.Equal(t, http.StatusOK, status, body)
	r.notReady(t)
	close(g.open)
	require.Equal(t, "opened", (<-result).text(), "running requests may finish")
	require.NoError(t, r.wait(t))
	require.Contains(t, r.stderr.String(), `drain.begin why="an operator has ordered it"`)
}

func TestOperatorEndsASessionOverHTTP(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--admin-actions", "--admin-token-file="+adminTokenFile(t))
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	resp, _ := r.do(t, http.MethodPost, r.MCP, initialize, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
	id := resp.Header.Get("Mcp-Session-Id")
	require.NotEmpty(t, id)
	_, sessions := r.keys(t)
	require.Len(t, sessions, 1)
	status, body := r.act(t, "end_session", `{"key":"`+sessions[0]+`"}`)
	require.Equal(t, http.StatusOK, status, body)
	require.NotContains(t, body, id, "the id is a credential")
	require.Eventually(t, func() bool {
		resp, _ := r.do(t, http.MethodPost, r.MCP, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", id,
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		return resp.StatusCode == http.StatusNotFound
	}, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		status, _ := r.act(t, "end_session", `{"key":"`+sessions[0]+`"}`)
		return status == http.StatusConflict
	}, patience, time.Millisecond)
}

// The commands of the documentation are right.
func TestActionsOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/telemetry.md")
	require.NoError(t, err)
	srv, g := newGated(t, false)
	r := start(t, srv, "--admin-actions", "--admin-token-file="+adminTokenFile(t))
	r.do(t, http.MethodPost, r.MCP, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
	_, result := r.enter(t, g)
	requests, sessions := r.keys(t)
	var done []string
	for _, op := range regexp.MustCompile(`(?m)^op (\w+) '(.*)'$`).FindAllStringSubmatch(string(page), -1) {
		body := strings.NewReplacer("r17", requests[0], "s4", sessions[0]).Replace(op[2])
		want := http.StatusOK
		if op[1] == telemetry.ActionCloseStream {
			want = http.StatusConflict // a modern client cannot come again, and that of the session reads no stream
		}
		status, text := r.act(t, op[1], body)
		require.Equal(t, want, status, "%s %s: %s", op[1], body, text)
		done = append(done, op[1])
	}
	require.ElementsMatch(t, []string{
		telemetry.ActionLogLevel, telemetry.ActionProfile, telemetry.ActionCloseStream, telemetry.ActionCloseStream,
		telemetry.ActionEndRequest, telemetry.ActionEndSession, telemetry.ActionDrain,
	}, done)
	require.Equal(t, "operator", (<-result).Error.Data.Reason)
	require.NoError(t, r.wait(t))
}

func TestOperatorSetsTheLogLevel(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--admin-actions", "--admin-token-file="+adminTokenFile(t), "--log-level=error")
	require.Equal(t, "hello", r.call("echo", `{"text":"hello"}`).text())
	require.NotContains(t, r.stderr.String(), "INFO")
	status, body := r.act(t, "log_level", `{"level":"info","seconds":3600}`)
	require.Equal(t, http.StatusOK, status, body)
	require.Regexp(t, `"until": "20\d\d-`, body)
	require.Contains(t, r.stderr.String(), "msg=admin.action action=log_level")
	status, _ = r.act(t, "log_level", `{"level":"error"}`)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 1, strings.Count(r.stderr.String(), "msg=admin.action"), "the second one is not logged: the level forbids it")
}

// The profiles of locks say that they are off and how to turn them on. They are the process's, so that
// this test must not run beside others.
func TestProfilesOfLocks(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--admin-actions", "--admin-token-file="+adminTokenFile(t), "--block-profile-rate=1000")
	page := func(path string) (int, string) {
		resp, body := r.do(t, http.MethodGet, r.Admin+"/debug/pprof/"+path, "", "Authorization", operatorToken)
		return resp.StatusCode, body
	}
	_, index := page("")
	require.Regexp(t, `mutex +\d+ entries; \?debug=1 or 2 for text; it is off; --mutex-profile-fraction or VITRINE_MUTEX_PROFILE_FRACTION turns it on, and POST /debug/actions/profile`, index)
	require.NotRegexp(t, `block .*it is off`, index)
	if strings.Contains(index, "mutex               0 entries") { // no test has made some before
		status, body := page("mutex")
		require.Equal(t, http.StatusConflict, status)
		require.Contains(t, body, "the profile mutex has no entries: it is off")
	}
	status, _ := page("block")
	require.Equal(t, http.StatusOK, status)

	status, body := r.act(t, "profile", `{"profile":"mutex","seconds":60,"rate":1}`)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "the profile mutex is on, with the rate 1: fetch /debug/pprof/mutex")
	status, _ = page("mutex")
	require.Equal(t, http.StatusOK, status)
}
