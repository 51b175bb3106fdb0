package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

// refusingWith returns a middleware that lets nothing to a tool through.
func refusingWith(r mcp.Refusal) middleware.Middleware {
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			if req.Method == mcp.MethodToolsCall {
				return middleware.Refuse(r)
			}
			return next(ctx, req)
		}
	}
}

// decoded returns what a JSON text stands for.
func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// admitting returns a rule of admission that lets no call of a tool in.
func admitting(r mcp.Refusal) server.Option {
	return server.WithAdmission(func(_ context.Context, req *middleware.Request) error {
		if req.Method == mcp.MethodToolsCall {
			return &r
		}
		return nil
	})
}

// A refusal looks the same whether a middleware or a rule of admission refuses: in both eras,
// over HTTP, on byte streams and in batches.
func TestRefusalReachesTheCaller(t *testing.T) {
	quota := mcp.Refusal{Status: 429, Reason: "quota", By: "tenant quota", RetryAfter: 1500 * time.Millisecond}
	token := mcp.Refusal{Status: 401, Reason: "expired", By: "tokens", Message: "sign in again", Challenge: `Bearer error="invalid_token"`}
	for name, option := range map[string]func(mcp.Refusal) server.Option{
		"middleware": func(r mcp.Refusal) server.Option { return server.WithMiddleware(refusingWith(r)) },
		"admission":  admitting,
	} {
		t.Run(name, func(t *testing.T) {
			handled := false
			newRefusing := func(r mcp.Refusal) *server.Server {
				srv := newServer(t, option(r))
				server.AddTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.Call, none) (string, error) {
					handled = true
					return "", nil
				})
				return srv
			}
			srv := newRefusing(quota)
			const body = `{"jsonrpc":"2.0","id":1,"error":{"code":429,"message":"there are too many requests","data":{"reason":"quota","retryAfter":2}}}`
			require.JSONEq(t, body, dial(t, srv).ask(modern(1, "tools/call", call("x", `{}`))), "byte stream")
			old := oldPipe(t, srv, mcp.Version20250326)
			require.JSONEq(t, body, old.ask(legacy(1, "tools/call", call("x", `{}`))), "legacy byte stream")
			var batch []any
			require.NoError(t, json.Unmarshal([]byte(old.ask("["+legacy(1, "tools/call", call("x", `{}`))+","+legacy(2, "ping", "")+"]")), &batch))
			require.ElementsMatch(t, []any{decoded(t, body), decoded(t, `{"jsonrpc":"2.0","id":2,"result":{}}`)}, batch)

			url := listen(t, srv)
			res, got := exchange(t, "POST", url, modern(1, "tools/call", call("x", `{}`)), modernHeaders("tools/call", "x")...)
			require.Equal(t, 429, res.StatusCode)
			require.Equal(t, "2", res.Header.Get("Retry-After"))
			require.JSONEq(t, body, got)
			session := begin(t, url, mcp.Version20250326)
			res, got = exchange(t, "POST", url, legacy(1, "tools/call", call("x", `{}`)), session)
			require.Equal(t, 429, res.StatusCode, "legacy")
			require.JSONEq(t, body, got)

			all := "[" + legacy(1, "tools/call", call("x", `{}`)) + "," + legacy(2, "tools/call", call("x", `{}`)) + "]"
			some := "[" + legacy(1, "tools/call", call("x", `{}`)) + "," + legacy(2, "ping", "") + "]"
			if name == "admission" {
				res, _ = exchange(t, "POST", url, all, session)
				require.Equal(t, 429, res.StatusCode, "none was admitted: the status of the first refusal")
				require.Equal(t, "2", res.Header.Get("Retry-After"))
			}
			res, _ = exchange(t, "POST", url, some, session)
			require.Equal(t, 200, res.StatusCode, "one was admitted")

			res, got = exchange(t, "POST", listen(t, newRefusing(token)), modern(1, "tools/call", call("x", `{}`)), modernHeaders("tools/call", "x")...)
			require.Equal(t, 401, res.StatusCode)
			require.Equal(t, token.Challenge, res.Header.Get("WWW-Authenticate"))
			require.Contains(t, got, `"message":"sign in again"`)
			require.False(t, handled)
		})
	}
}

// Refusals are counted by reason and by who refuses. The number of reasons is bounded.
func TestRefusalsAreCounted(t *testing.T) {
	srv := newServer(t, server.WithMiddleware(refusingWith(mcp.Refusal{Status: 429, Reason: "quota", By: "tenant quota"})))
	server.AddTool(srv, server.Tool{Name: "x"}, text(""))
	p := dial(t, srv)
	for id := range 3 {
		p.ask(modern(id, "tools/call", call("x", `{}`)))
	}
	require.Equal(t, []session.RefusedCounter{{Reason: "quota", By: "tenant quota", Count: 3}}, srv.Core().Snapshot().Counters.Refused)

	n := 0
	srv = newServer(t, server.WithAdmission(func(context.Context, *middleware.Request) error {
		n++
		return &mcp.Refusal{Reason: fmt.Sprint(n), By: "rule"}
	}))
	p = dial(t, srv)
	for id := range 100 {
		p.ask(modern(id, "tools/list", ""))
	}
	counters := srv.Core().Snapshot().Counters.Refused
	require.Len(t, counters, 65)
	require.Contains(t, counters, session.RefusedCounter{Reason: "_OTHER", By: "_OTHER", Count: 36})
}

// A rule of admission is called before a slot is taken. It gets everything about the request.
func TestAdmissionComesFirst(t *testing.T) {
	var seen []middleware.Request
	logs := &logRecorder{}
	srv := newServer(t, byContext, server.WithLogger(slog.New(logs)), server.WithLimits(server.Limits{MaxInFlightTotal: 1, MaxQueue: 1}),
		server.WithAdmission(func(_ context.Context, req *middleware.Request) error {
			seen = append(seen, *req)
			if req.Target == "secret" {
				return errors.New("the rule's own words")
			}
			return nil
		}))
	release := make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "wait"}, func(context.Context, *server.Call, none) (string, error) { <-release; return "", nil })
	p := dialContext(t, as("ada"), srv)
	p.send(modern(1, "tools/call", call("wait", `{}`)), modern(4, "tools/call", call("wait", `{}`)))
	require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"error":{"code":403,"message":"this is not allowed","data":{"reason":"forbidden"}}}`,
		p.ask(modern(2, "tools/call", call("secret", `{}`))), "and not that there is no slot")
	refused := logs.find("request.rejected")[0].attrs
	require.Equal(t, "the rule's own words", refused["error"], "the operator learns why")
	require.Equal(t, "forbidden by admission for ada", refused["refusal"]+" by "+refused["by"]+" for "+refused["principal"])
	require.Contains(t, p.ask(modern(3, "tools/call", call("wait", `{}`))), "overload")
	close(release)
	p.recv()
	p.recv()
	require.Equal(t, "ada", seen[0].Principal.Subject)
	require.Equal(t, middleware.NewRoute("tools/call", "wait", "wait"), seen[0].Route)
	require.Equal(t, "secret", seen[2].Target)
	require.Empty(t, seen[2].Route.Target)
}

// If a rule panics, the request is rejected, and nothing else happens.
func TestAdmissionPanics(t *testing.T) {
	logs := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(logs)), server.WithAdmission(func(_ context.Context, req *middleware.Request) error {
		if req.Method == mcp.MethodToolsList {
			panic("secret")
		}
		return nil
	}))
	p := dial(t, srv)
	require.Contains(t, p.ask(modern(1, "tools/list", "")), `"code":503`)
	require.Len(t, logs.find("admission.panic"), 1)
	require.Contains(t, p.ask(modern(2, "server/discover", "")), `"result"`)
	_, err := server.TryNew("test", "1", server.WithAdmission(nil))
	require.ErrorContains(t, err, "a rule of admission is nil")
}

// A refusal can hide its reason from the caller, and have the status 400.
func TestRefusalWithPublicReason(t *testing.T) {
	logs := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(logs)), server.WithAuthenticator(auth.AuthenticatorFunc(
		func(context.Context, *auth.Caller) (*auth.Principal, error) {
			return nil, &mcp.Refusal{Status: 400, Reason: "two_headers", PublicReason: "malformed", By: "oauth", Challenge: "Bearer"}
		})))
	res, body := exchange(t, "POST", listen(t, srv), modern(1, "tools/list", ""), modernHeaders("tools/list", "")...)
	require.Equal(t, 400, res.StatusCode)
	require.Equal(t, "Bearer", res.Header.Get("WWW-Authenticate"))
	require.Contains(t, body, `"code":400,"message":"the request is malformed","data":{"reason":"malformed"}`)
	require.Equal(t, "two_headers", logs.find("caller.refused")[0].attrs["refusal"])
	require.Equal(t, []session.RefusedCounter{{Reason: "two_headers", By: "oauth", Count: 1}}, srv.Core().Snapshot().Counters.Refused)
}

// A caller whom the authenticator refuses gets the status of the refusal. The text of any other
// error is only in the log.
func TestAuthenticatorRefuses(t *testing.T) {
	logs := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(logs)), server.WithAuthenticator(auth.AuthenticatorFunc(
		func(_ context.Context, c *auth.Caller) (*auth.Principal, error) {
			switch http.Header(c.Header).Get("Authorization") {
			case "":
				return nil, &mcp.Refusal{Status: 401, Reason: "no_token", Challenge: "Bearer"}
			case "nobody":
				return &auth.Principal{}, nil
			}
			return nil, errors.New("the database of tokens is down")
		})))
	url := listen(t, srv)
	for header, want := range map[string]string{"": "no_token", "nobody": "unauthenticated", "other": "unauthenticated"} {
		res, body := exchange(t, "POST", url, modern(1, "tools/list", ""), append(modernHeaders("tools/list", ""), "Authorization: "+header, "User-Agent: desk/4.3.0")...)
		require.Equal(t, 401, res.StatusCode)
		require.Contains(t, body, `"reason":"`+want+`"`)
		require.NotContains(t, body, "database")
	}
	require.Subset(t, logs.find("caller.refused")[0].attrs, map[string]any{"user_agent": "desk/4.3.0"})
	require.Contains(t, logs.find("caller.refused")[0].attrs, "refusal")
	require.EqualValues(t, 3, srv.Core().Snapshot().Counters.ExchangesRefused[mcp.RefuseAuthentication])
	require.ElementsMatch(t, []session.RefusedCounter{
		{Reason: "no_token", By: "authenticator", Count: 1}, {Reason: "unauthenticated", By: "authenticator", Count: 2},
	}, srv.Core().Snapshot().Counters.Refused)
}
