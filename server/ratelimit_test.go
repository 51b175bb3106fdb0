package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// hourly is a rate limit of some messages in an hour, so that no token comes back in a test.
func hourly(name string, messages int, change func(*middleware.RateLimit)) server.Option {
	limit := middleware.RateLimit{Name: name, Requests: messages, Window: time.Hour}
	if change != nil {
		change(&limit)
	}
	return server.WithRateLimits(limit)
}

func forMethods(methods ...string) func(*middleware.RateLimit) {
	return func(l *middleware.RateLimit) { l.Methods = methods }
}

// A request over a rate limit gets the same answer in both eras, over HTTP, on byte streams and in
// batches.
func TestRequestOverARateLimitIsRefused(t *testing.T) {
	newLimited := func() *server.Server {
		srv := newServer(t, hourly("calls", 1, forMethods(mcp.MethodToolsCall)))
		server.AddTool(srv, server.Tool{Name: "x"}, text("done"))
		return srv
	}
	const body = `{"jsonrpc":"2.0","id":2,"error":{"code":429,"message":"there are too many requests: the limit calls is 1 in 1h0m0s",` +
		`"data":{"reason":"rate_limited","limit":"calls","retryAfter":3600}}}`
	one, two := call("x", `{}`), call("x", `{}`)

	p := dial(t, newLimited())
	require.Contains(t, p.ask(modern(1, "tools/call", one)), "done")
	require.JSONEq(t, body, p.ask(modern(2, "tools/call", two)))
	require.Contains(t, p.ask(modern(3, "tools/list", "")), `"result"`, "the limit is for another method")

	p = oldPipe(t, newLimited(), mcp.Version20250326)
	var batch []any
	require.NoError(t, json.Unmarshal([]byte(p.ask("["+legacy(1, "tools/call", one)+","+legacy(2, "tools/call", two)+"]")), &batch))
	require.Len(t, batch, 2)
	require.Contains(t, batch, decoded(t, body))

	url := listen(t, newLimited())
	res, got := exchange(t, "POST", url, modern(1, "tools/call", one), modernHeaders("tools/call", "x")...)
	require.Equal(t, 200, res.StatusCode, got)
	res, got = exchange(t, "POST", url, modern(2, "tools/call", two), modernHeaders("tools/call", "x")...)
	require.Equal(t, 429, res.StatusCode)
	require.Equal(t, "3600", res.Header.Get("Retry-After"))
	require.JSONEq(t, body, got)
	session := begin(t, url, mcp.Version20251125)
	res, got = exchange(t, "POST", url, legacy(2, "tools/call", two), session)
	require.Equal(t, 429, res.StatusCode)
	require.JSONEq(t, body, got)
}

// A notification over a rate limit is not handled, and counted. Its sender is told over HTTP.
func TestNotificationOverARateLimitIsIgnored(t *testing.T) {
	const name = "notifications/com.example/nudge"
	var handled atomic.Int32
	newLimited := func() *server.Server {
		handled.Store(0)
		srv := newServer(t, hourly("nudges", 2, forMethods(name)))
		server.AddNotification(srv, name, "", func(context.Context, *server.Notice, none) { handled.Add(1) })
		return srv
	}
	ignored := func(srv *server.Server) (n uint64) {
		counters := srv.Core().Snapshot().Counters
		for why, count := range counters.Ignored {
			require.Equal(t, "notification rate_limited", fmt.Sprint(why.Kind, " ", why.Reason))
			n += count
		}
		return n
	}

	srv := newLimited()
	p := oldPipe(t, srv, mcp.Version20251125)
	for range 5 {
		p.send(notice(name, ""))
	}
	require.Contains(t, p.ask(legacy(1, "ping", "")), `"result"`)
	require.EqualValues(t, 2, handled.Load())
	require.EqualValues(t, 3, ignored(srv))
	conserved(t, srv)

	srv = newLimited()
	url := listen(t, srv)
	session := begin(t, url, mcp.Version20251125)
	for i := range 3 {
		res, body := exchange(t, "POST", url, notice(name, ""), session)
		if i < 2 {
			require.Equal(t, 202, res.StatusCode)
			continue
		}
		require.Equal(t, 429, res.StatusCode)
		require.Equal(t, "1800", res.Header.Get("Retry-After"))
		require.Contains(t, body, `"limit":"nudges"`)
	}
	res, _ := exchange(t, "POST", url, notice(name, ""), "Mcp-Protocol-Version: 2026-07-28")
	require.Equal(t, 429, res.StatusCode, "modern")
	require.EqualValues(t, 2, handled.Load())
	require.EqualValues(t, 2, ignored(srv))
	conserved(t, srv)
}

// A flood of initialize opens no more sessions than its rate limit allows, and a limit for all
// methods does not disturb the handshake of others.
func TestFloodOfInitializeIsRefusedByAddress(t *testing.T) {
	srv := newServer(t, hourly("all", 1, nil),
		hourly("connects", 3, func(l *middleware.RateLimit) {
			l.Methods, l.Per = []string{mcp.MethodInitialize}, []string{middleware.PerAddress}
		}))
	url := listen(t, srv)
	statuses := map[int]int{}
	for range 10 {
		res, _ := exchange(t, "POST", url, legacy(1, "initialize",
			`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
		statuses[res.StatusCode]++
	}
	require.Equal(t, map[int]int{200: 3, 429: 7}, statuses)
	require.Len(t, srv.Core().Snapshot().Sessions, 3)
	p := oldPipe(t, srv, mcp.Version20251125)
	for id := range 5 {
		require.Contains(t, p.ask(legacy(id, "ping", "")), `"result"`)
	}
}

// Rate limits are asked after the rules of admission and before a slot is taken: a request without
// the right to come takes no token, and one over the limit does not wait.
func TestRateLimitsAreAskedAfterAdmissionAndBeforeSlots(t *testing.T) {
	srv := newServer(t, server.WithLimits(server.Limits{MaxInFlightTotal: 1}), hourly("calls", 2, forMethods(mcp.MethodToolsCall)),
		server.WithAdmission(func(_ context.Context, req *middleware.Request) error {
			if req.Target == "secret" {
				return &mcp.Refusal{Status: 403, Reason: "forbidden", By: "test"}
			}
			return nil
		}))
	release := make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "wait"}, func(context.Context, *server.Call, none) (string, error) { <-release; return "", nil })
	p := dial(t, srv)
	for id := range 5 {
		require.Contains(t, p.ask(modern(id, "tools/call", call("secret", `{}`))), "forbidden")
	}
	p.send(modern(10, "tools/call", call("wait", `{}`)), modern(11, "tools/call", call("wait", `{}`)))
	require.Contains(t, p.ask(modern(12, "tools/call", call("wait", `{}`))), "rate_limited", "both slots and tokens are gone")
	close(release)
	p.recv()
	p.recv()
}

// Metrics say how near a limit is and what it has decided; the log names it.
func TestRateLimitsAreReported(t *testing.T) {
	tel, err := telemetry.New()
	require.NoError(t, err)
	logs := &logRecorder{}
	srv := newServer(t, server.WithTelemetry(tel), server.WithLogger(slog.New(logs)), hourly("calls", 4, forMethods(mcp.MethodToolsCall)))
	server.AddTool(srv, server.Tool{Name: "x"}, text("done"))
	p := dial(t, srv)
	ask := func(n int) {
		for id := range n {
			p.ask(modern(id, "tools/call", call("x", `{}`)))
		}
	}
	ask(1)
	require.Contains(t, scrape(t, tel), `vitrine_rate_limit_used_ratio{limit="calls"} 0.2`, "a little has come back")
	ask(13)
	text := scrape(t, tel)
	for _, want := range []string{
		`vitrine_rate_limit_messages_total{decision="allowed",limit="calls"} 4`,
		`vitrine_rate_limit_messages_total{decision="refused",limit="calls"} 10`,
		`vitrine_rate_limit_used_ratio{limit="calls"} 0.99`,
		`vitrine_rate_limit_buckets{limit="calls"} 1`,
		`vitrine_refusals_total{by="calls",reason="rate_limited"} 10`,
		`vitrine_limit_reached_total{limit="rate_limits"} 10`,
		`vitrine_requests_rejected_total{reason="refused"} 10`,
	} {
		require.Contains(t, text, want)
	}
	rec := httptest.NewRecorder()
	tel.RequestsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/requests?format=text", nil))
	require.Regexp(t, `(?m)^RATE LIMIT +USED +ALLOWED +REFUSED +BUCKETS\ncalls +100 % +4 +10 +1$`, rec.Body.String())
	rejected := logs.find("request.rejected")
	require.Equal(t, "calls", rejected[0].attrs["by"])
	require.Equal(t, "rate_limited", rejected[0].attrs["refusal"])
	atInfo := 0
	for _, r := range rejected {
		if r.level >= slog.LevelInfo {
			atInfo++
		}
	}
	require.Len(t, rejected, 10)
	require.Less(t, atInfo, 10, "a flood of refusals does not fill the log")
}

func TestWrongRateLimitsAreAnError(t *testing.T) {
	_, err := server.TryNew("x", "1", hourly("calls", 0, nil))
	require.ErrorContains(t, err, `rate limit "calls"`)
	_, err = server.TryNew("x", "1", hourly("calls", 1, nil), hourly("calls", 2, nil))
	require.ErrorContains(t, err, "two of this name")
	srv := newServer(t, hourly("calls", 1, nil))
	require.Error(t, srv.SetRateLimits(middleware.RateLimit{Name: "calls"}))
	require.NoError(t, srv.SetRateLimits())
	p := dial(t, srv)
	for id := range 5 {
		require.False(t, strings.Contains(p.ask(modern(id, "tools/list", "")), "rate_limited"), "the limits are gone")
	}
}
