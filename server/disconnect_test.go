package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// recording returns telemetry that is not disabled.
func recording(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.New()
	require.NoError(t, err)
	t.Cleanup(func() { _ = tel.Shutdown(context.Background()) })
	return tel
}

// textOf returns a page as text.
func textOf(page http.Handler) string {
	rec := httptest.NewRecorder()
	page.ServeHTTP(rec, httptest.NewRequest("GET", "/?format=text", nil))
	return rec.Body.String()
}

// requestsPage returns /debug/requests.
func requestsPage(t *testing.T, srv *server.Server) (rep report.Requests) {
	t.Helper()
	rec := httptest.NewRecorder()
	srv.Telemetry().RequestsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/requests", nil))
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &rep))
	return rep
}

func metricsOf(srv *server.Server) string {
	rec := httptest.NewRecorder()
	srv.Telemetry().MetricsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	return rec.Body.String()
}

// TestDisconnectBehindAProxy checks that what the proxy says of the way of a request is on the page, in the log and
// with the end of its stream, and that the age of the disconnect is counted.
func TestDisconnectBehindAProxy(t *testing.T) {
	var log lockedBuffer
	srv := newServer(t, server.WithTelemetry(recording(t)), server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	waiting := make(chan struct{}, 2)
	server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		waiting <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})
	front := httptest.NewServer(srv.Handler(server.WithTrustedProxies("127.0.0.1", "::1")))
	defer front.Close()
	abandon := func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		req, err := http.NewRequestWithContext(ctx, "POST", front.URL, strings.NewReader(modern(1, "tools/call", call("wait", "{}"))))
		require.NoError(t, err)
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
			"Mcp-Method": "tools/call", "Mcp-Name": "wait", "Via": "1.1 edge-7", "X-Forwarded-For": "203.0.113.9, 127.0.0.1",
		} {
			req.Header.Set(name, value)
		}
		left := make(chan struct{})
		go func() {
			defer close(left)
			if res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req); err == nil {
				res.Body.Close()
			}
		}()
		<-waiting
		open := requestsPage(t, srv).Requests[0]
		require.Equal(t, []string{"1.1 edge-7", "203.0.113.9, 127.0.0.1"}, []string{open.Via, open.ForwardedFor})
		require.Regexp(t, `(?m) TRANSPORT +VIA +SESSION .*\n.* http +1\.1 edge-7 `, textOf(srv.Telemetry().RequestsHandler()))
		cancel()
		<-left
	}
	abandon(t.Context())
	require.Eventually(t, func() bool { return requestsPage(t, srv).Disconnects.Count == 1 }, wait, tick)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "msg=request.cancelled") }, wait, tick)
	require.Regexp(t, `msg=request\.cancelled .*via="1\.1 edge-7" forwarded_for="203\.0\.113\.9, 127\.0\.0\.1"`, log.String())
	require.Eventually(t, func() bool {
		return regexp.MustCompile(`(?m) CLIENT +VIA +WHY .*\n.* 1\.1 edge-7 +client_disconnect`).MatchString(textOf(srv.Telemetry().TracesHandler()))
	}, wait, tick)
	require.Contains(t, metricsOf(srv), "vitrine_disconnect_age_seconds_count 1\n")
	require.Empty(t, requestsPage(t, srv).EndedStreams, "it was no stream")
	conserved(t, srv)
}

// Via and the forwarded addresses of a peer that is no trusted proxy are its own words: they are on no page, in no
// log, and with the end of no stream.
func TestViaOfAnUntrustedPeerIsNotRecorded(t *testing.T) {
	var log lockedBuffer
	srv := newServer(t, server.WithTelemetry(recording(t)), server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	waiting := make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		if err := c.Progress(1, 2, ""); err != nil {
			return "", err
		}
		close(waiting)
		<-ctx.Done()
		return "", ctx.Err()
	})
	front := httptest.NewServer(srv.Handler(server.WithTrustedProxies("192.0.2.7")))
	defer front.Close()
	body := modern(1, "tools/call", call("wait", "{}"), `"progressToken":1`)
	s := openStream(t, "POST", front.URL, body, "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: wait",
		"Via: 1.1 edge-7", "X-Forwarded-For: 203.0.113.9", "Forwarded: for=203.0.113.9")
	<-waiting
	page := requestsPage(t, srv)
	require.Equal(t, "wait", page.Requests[0].Tool)
	require.Empty(t, page.Requests[0].Via+page.Requests[0].ForwardedFor)
	s.Body.Close()
	require.Eventually(t, func() bool { return len(requestsPage(t, srv).EndedStreams) == 1 }, wait, tick)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "msg=request.cancelled") }, wait, tick)
	require.Empty(t, requestsPage(t, srv).EndedStreams[0].Via+requestsPage(t, srv).EndedStreams[0].ForwardedFor)
	for _, text := range []string{log.String(), textOf(srv.Telemetry().RequestsHandler()), textOf(srv.Telemetry().TracesHandler())} {
		require.NotContains(t, text, "edge-7")
		require.NotContains(t, text, "203.0.113.9")
	}
	conserved(t, srv)
}

// TestEndedStreamNamesItsRequest checks that the row of a stream that has ended has the tool, the id and the trace
// of the request that it answered, and that the disconnect counts for the version of the client.
func TestEndedStreamNamesItsRequest(t *testing.T) {
	srv := newServer(t, server.WithTelemetry(recording(t)))
	server.AddTool(srv, server.Tool{Name: "report"}, func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		if err := c.Progress(1, 2, ""); err != nil {
			return "", err
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
	url := listen(t, srv)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	body := modern(7, "tools/call", call("report", "{}"), `"progressToken":1`,
		`"traceparent":"00-`+trace+`-00f067aa0ba902b7-01"`, `"io.modelcontextprotocol/clientInfo":{"name":"desk","version":"4.3.0"}`)
	s := openStream(t, "POST", url, body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: report")
	s.next()
	s.Body.Close()
	require.Eventually(t, func() bool { return len(requestsPage(t, srv).EndedStreams) == 1 }, wait, tick)
	page := requestsPage(t, srv)
	ended := page.EndedStreams[0]
	require.Equal(t, []string{"answer", "peer_left", "report", "7", trace, "desk", "4.3.0"},
		[]string{ended.Kind, ended.Reason, ended.Tool, ended.RequestID, ended.TraceID, ended.Client, ended.ClientVersion})
	require.Equal(t, []report.DisconnectedClient{{Client: "desk", ClientVersion: "4.3.0", Count: 1}}, page.Disconnects.Clients)
	conserved(t, srv)
}

// TestEndsOfStreams checks the kinds and the reasons of event streams over HTTP.
func TestEndsOfStreams(t *testing.T) {
	srv := changing(t, server.WithTelemetry(recording(t)))
	url := listen(t, srv)
	ended := func(kind, reason string) {
		t.Helper()
		require.Eventually(t, func() bool {
			all := requestsPage(t, srv).EndedStreams
			return len(all) > 0 && all[0].Kind == kind && all[0].Reason == reason
		}, wait, tick)
		require.Contains(t, metricsOf(srv), `vitrine_stream_duration_seconds_count{kind="`+kind+`",reason="`+reason+`"}`)
	}
	modernHeaders := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"}
	s := openStream(t, "POST", url, listenTo(1, `{"toolsListChanged":true}`), modernHeaders...)
	s.next()
	s.Body.Close()
	ended("subscription", "peer_left")

	res, _ := exchange(t, "POST", url, legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"desk","version":"4.3.0"}`))
	id := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, id)
	s = openStream(t, "GET", url, "", id)
	require.Equal(t, 200, s.StatusCode)
	s.Body.Close()
	ended("session", "peer_left")
	require.Equal(t, "4.3.0", requestsPage(t, srv).EndedStreams[0].ClientVersion)

	require.Eventually(t, func() bool { // the server lets go of the stream before
		s = openStream(t, "GET", url, "", id)
		return s.StatusCode == 200
	}, wait, tick)
	exchange(t, "DELETE", url, "", id)
	ended("session", "session_ended")

	s = openStream(t, "POST", url, listenTo(1, `{"toolsListChanged":true}`), modernHeaders...)
	s.next()
	conserved(t, srv)
	ended("subscription", "server_shutdown")
}
