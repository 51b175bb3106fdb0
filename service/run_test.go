package service_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

func TestRunServesUntilItsContextEnds(t *testing.T) {
	srv, _ := newGated(t, false)
	var order []string
	srv.AddHook("order", func(context.Context) error { order = append(order, "start"); return nil },
		func(context.Context) error { order = append(order, "stop"); return nil })
	r := start(t, srv)
	assert.Equal(t, []string{"start"}, order)

	a := r.call("echo", `{"text":"hello"}`)
	require.NoError(t, a.err)
	assert.Equal(t, http.StatusOK, a.status)
	assert.Equal(t, "hello", a.text())

	r.stop()
	require.NoError(t, r.wait(t))
	assert.Equal(t, []string{"start", "stop"}, order)
	for _, url := range []string{r.MCP, r.Admin} {
		_, err := r.client.Get(url)
		assert.Error(t, err, "nothing listens any more")
	}
}

func TestBannerHasTheRealPortsAndAClientConfiguration(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv)
	banner := r.stderr.String()
	assert.NotContains(t, banner, ":0/")
	for _, want := range []string{
		"testing 1.2.3", r.MCP, r.Admin + "/metrics", r.Admin + "/livez", r.Admin + "/readyz", r.Admin + "/debug/requests",
		`{"mcpServers":{"testing":{"type":"http","url":"` + r.MCP + `"}}}`,
	} {
		assert.Contains(t, banner, want)
	}
}

func TestAdminListener(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv)
	_, result := r.enter(t, g)
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/", 200, "/debug/pprof/"},
		{"/livez", 200, "ok"},
		{"/readyz", 200, "ready"},
		{"/metrics", 200, "vitrine_"},
		{"/debug/requests", 200, "gated"},
		{"/debug/pprof/", 200, "goroutine"},
		{"/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"/debug/pprof/profile?seconds=0.01", 200, "\x1f\x8b"},
		{"/debug/pprof/trace?seconds=0.01", 200, "go 1."},
		{"/debug/pprof/nothing", 404, "no such profile"},
		{"/nothing", 404, ""},
	} {
		status, body := r.get(t, c.path)
		assert.Equal(t, c.status, status, c.path)
		assert.Contains(t, body, c.want, c.path)
	}
	close(g.open)
	assert.Equal(t, "opened", (<-result).text())

	_, pattern := http.DefaultServeMux.Handler(&http.Request{Method: http.MethodGet, Host: "x", URL: &url.URL{Path: "/debug/pprof/"}})
	assert.Empty(t, pattern, "the profiles must stay off http.DefaultServeMux")
}

// What a probe or a scraper says is taken; a name must be listed, or it may be one that
// was rebound. The log says what to do about it, once a second.
func TestAdminAllowedHosts(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--admin-allowed-hosts=mcp.prod.svc, metrics.example:9464", "--log-format=json")
	long := strings.Repeat("long.", 100) + "example"
	for _, tt := range []struct {
		host   string
		status int
	}{
		{"10.1.2.3:9464", http.StatusOK},
		{"localhost:9464", http.StatusOK},
		{"mcp.prod.svc:9464", http.StatusOK},
		{"metrics.example:9464", http.StatusOK},
		{"metrics.example", http.StatusForbidden},
		{long, http.StatusForbidden},
	} {
		req, err := http.NewRequest(http.MethodGet, r.Admin+"/debug/requests", nil)
		require.NoError(t, err)
		req.Host = tt.host
		resp, err := r.client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, tt.status, resp.StatusCode, tt.host)
		if tt.status != http.StatusOK {
			assert.Contains(t, string(body), "--admin-allowed-hosts")
		}
	}
	r.stop()
	require.NoError(t, r.wait(t))
	log := r.stderr.String()
	assert.Regexp(t, `"level":"WARN","msg":"admin.refused","host":"metrics.example","remote":"127.0.0.1:[0-9]+","silenced":0,.*VITRINE_ADMIN_ALLOWED_HOSTS`, log)
	assert.NotContains(t, log, long)
}

// A page of another site can neither start a profile nor take a place of the live stream.
func TestAdminListenerRefusesOtherSites(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv)
	for _, tt := range []struct {
		site, dest, path string
		status           int
	}{
		{"cross-site", "empty", "/debug/pprof/profile?seconds=1000", http.StatusForbidden},
		{"same-site", "empty", "/debug/live", http.StatusForbidden},
		{"cross-site", "document", "/debug/requests", http.StatusOK},
		{"same-origin", "empty", "/debug/requests", http.StatusOK},
		{"none", "document", "/debug/requests", http.StatusOK},
		{"", "", "/debug/requests", http.StatusOK},
	} {
		req, err := http.NewRequest(http.MethodGet, r.Admin+tt.path, nil)
		require.NoError(t, err)
		req.Header.Set("Sec-Fetch-Site", tt.site)
		req.Header.Set("Sec-Fetch-Dest", tt.dest)
		resp, err := r.client.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, tt.status, resp.StatusCode, "%+v", tt)
	}
}

func TestAdminListenerCanBeOff(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--admin-addr=off")
	assert.Empty(t, r.Admin)
	assert.NotContains(t, r.stderr.String(), "/metrics")
}

func TestReadinessChecksSayWhatIsWrong(t *testing.T) {
	srv, _ := newGated(t, false)
	srv.AddReadiness("database", func(context.Context) error { return errors.New("no route to host") })
	r := start(t, srv)
	status, body := r.get(t, "/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, body, "database: no route to host")
	status, _ = r.get(t, "/livez")
	assert.Equal(t, http.StatusOK, status)
	_, body = r.get(t, "/metrics")
	assert.Contains(t, body, `vitrine_readiness_changes_total{check="database",state="not_ready"} 1`)
	_, body = r.get(t, "/debug/requests")
	assert.Regexp(t, `"readiness":\s*{\s*"state":\s*"not_ready",\s*"since":\s*"[^"]+",\s*"why":\s*"database: no route to host"`, body)
	_, body = r.get(t, "/debug/requests?format=text")
	assert.Regexp(t, `not_ready since \S+  database: no route to host`, body)
	r.stop()
	require.NoError(t, r.wait(t))
	assert.Regexp(t, `WARN msg=readiness.changed from=unknown to=not_ready why="database: no route to host"`, r.stderr.String())
	assert.Regexp(t, `INFO msg=readiness.changed from=not_ready to=draining`, r.stderr.String())
}

func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for flag, what := range map[string]string{"addr": "MCP", "admin-addr": "admin"} {
		srv, _ := newGated(t, false)
		stopped := false
		srv.AddHook("cache", func(context.Context) error { return nil }, func(context.Context) error { stopped = true; return nil })
		err := service.Run(t.Context(), srv, quiet("--"+flag+"="+taken.Addr().String())...)
		require.Error(t, err)
		assert.ErrorContains(t, err, what+" listener")
		assert.ErrorContains(t, err, taken.Addr().String())
		assert.ErrorContains(t, err, "--"+flag)
		assert.True(t, stopped, "what the start hooks began must be ended")
	}
}

func TestStartHookFails(t *testing.T) {
	srv, _ := newGated(t, false)
	errHook := errors.New("no database")
	var stopped []string
	stop := func(name string) func(context.Context) error {
		return func(context.Context) error { stopped = append(stopped, name); return nil }
	}
	fine := func(context.Context) error { return nil }
	srv.AddHook("cache", fine, stop("cache"))
	srv.AddHook("index", fine, stop("index"))
	srv.AddHook("database", func(context.Context) error { return errHook }, stop("database"))
	srv.AddHook("queue", func(context.Context) error { t.Error("it is started"); return nil }, stop("queue"))
	log := &syncBuffer{}
	err := service.Run(t.Context(), srv, append(quiet("--log-format=json"), service.WithStderr(log))...)
	assert.ErrorIs(t, err, errHook)
	assert.EqualError(t, err, `service: server: start hook "database": no database`)
	assert.Equal(t, []string{"index", "cache"}, stopped, "what was started is stopped, the last first, and nothing else")
	assert.Regexp(t, `"level":"ERROR","msg":"hook.failed","hook":"database","phase":"start","took_ms":[0-9.e-]+,"error":"no database"`, log.String())
}

// The server is made before Run sets the default logger, and still its records
// come out as Run was told, with the trace id of their request, once.
func TestLogsOfAServerThatWasMadeEarlier(t *testing.T) {
	before, writer, flags := slog.Default(), log.Writer(), log.Flags()
	srv, _ := newGated(t, false)
	server.AddTool(srv, server.Tool{Name: "panic"}, func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		slog.InfoContext(ctx, "from the handler")
		panic("as requested")
	})
	r := start(t, srv, "--log-format=json", "--log-level=info")
	require.NoError(t, r.call("panic", "{}").err)
	r.stop()
	require.NoError(t, r.wait(t))

	seen := map[string]bool{}
	for line := range strings.Lines(r.stderr.String()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &record), "all of stderr is JSON: %s", line)
		msg := record["msg"].(string)
		seen[msg] = true
		if msg == "handler.panic" || msg == "from the handler" {
			assert.Equal(t, 1, strings.Count(line, `"trace_id"`), line)
		}
	}
	for _, msg := range []string{"service.ready", "handler.panic", "from the handler", "drain.begin", "drain.end"} {
		assert.True(t, seen[msg], "no record %q in\n%s", msg, r.stderr)
	}
	assert.Same(t, before, slog.Default())
	assert.Equal(t, writer, log.Writer())
	assert.Equal(t, flags, log.Flags())
}

func TestAllowedHostsAndOrigins(t *testing.T) {
	srv, _ := newGated(t, false, server.WithAllowedHosts("of-the-server.example"))
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

	r := start(t, srv)
	assert.Equal(t, http.StatusOK, r.call("echo", `{"text":""}`, host("of-the-server.example")).status)
	assert.Equal(t, http.StatusForbidden, r.call("echo", `{"text":""}`, host("of-the-flag.example")).status)
	r.stop()
	require.NoError(t, r.wait(t))

	srv, _ = newGated(t, false, server.WithAllowedHosts("of-the-server.example"))
	r = start(t, srv, "--allowed-hosts=of-the-flag.example, other.example", "--allowed-origins=https://app.example",
		"--allowed-headers=X-Tenant, x-region")
	assert.Equal(t, http.StatusForbidden, r.call("echo", `{"text":""}`, host("of-the-server.example")).status)
	assert.Equal(t, http.StatusOK, r.call("echo", `{"text":""}`, host("other.example")).status)
	origin := func(o string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("Origin", o) } }
	assert.Equal(t, http.StatusOK, r.call("echo", `{"text":""}`, origin("https://app.example")).status)
	assert.Equal(t, http.StatusForbidden, r.call("echo", `{"text":""}`, origin("https://evil.example")).status)
	asked := r.call("echo", `{"text":""}`, origin("https://app.example"), func(r *http.Request) {
		r.Method = http.MethodOptions
		r.Header.Set("Access-Control-Request-Method", "POST")
	})
	assert.Contains(t, asked.header.Get("Access-Control-Allow-Headers"), ", X-Tenant, x-region")
}

func TestH2C(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--h2c", "--path=/other/mcp/")
	assert.True(t, strings.HasSuffix(r.MCP, "/other/mcp/"))
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	h2 := &http.Transport{Protocols: &protocols}
	defer h2.CloseIdleConnections()
	one := r.client
	r.client = &http.Client{Transport: h2, Timeout: patience}
	assert.Equal(t, "two", r.call("echo", `{"text":"two"}`).text())
	r.client = one
	assert.Equal(t, "one", r.call("echo", `{"text":"one"}`).text())
}

// A connection of HTTP/2 carries a few requests at once, because it counts as one connection.
func TestH2CBoundsTheRequestsOfAConnection(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--h2c")
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(r.MCP, "http://"), "/mcp"))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // and no settings
	require.NoError(t, err)
	head := make([]byte, 9) // of a frame: three bytes of length, type, flags, stream
	_, err = io.ReadFull(c, head)
	require.NoError(t, err)
	require.EqualValues(t, 4, head[3], "SETTINGS comes first")
	settings := make([]byte, int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(c, settings)
	require.NoError(t, err)
	got := map[uint16]uint32{}
	for s := settings; len(s) > 0; s = s[6:] {
		got[binary.BigEndian.Uint16(s)] = binary.BigEndian.Uint32(s[2:])
	}
	const maxConcurrentStreams = 3
	require.EqualValues(t, 32, got[maxConcurrentStreams], "%v", got)
}

// A stream that stands may end with the process, when it is too late to say that its
// connection leads nowhere: it says so when it begins. Others keep their connection.
func TestStandingStreamsEndTheirConnection(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv)
	kept := &http.Transport{}
	defer kept.CloseIdleConnections()
	closes := func(method, mcpMethod, session, body string) (ends bool, opened string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, r.MCP, strings.NewReader(body))
		require.NoError(t, err)
		req.Header = http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}}
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		if mcpMethod != "" {
			req.Header.Set("MCP-Protocol-Version", "2026-07-28")
			req.Header.Set("Mcp-Method", mcpMethod)
		}
		resp, err := kept.RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return resp.Close, resp.Header.Get("Mcp-Session-Id")
	}
	const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	ends, _ := closes(http.MethodPost, "tools/list", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modern+`}}`)
	assert.False(t, ends)
	ends, _ = closes(http.MethodPost, mcp.MethodSubscriptionsListen, "",
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modern+`}}`)
	assert.True(t, ends, "a subscription")
	ends, session := closes(http.MethodPost, "", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
		`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	assert.False(t, ends)
	ends, _ = closes(http.MethodGet, "", session, "")
	assert.True(t, ends, "the stream of a session")
}
