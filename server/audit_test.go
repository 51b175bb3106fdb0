package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A trail is a sink of an audit in memory.
type trail struct {
	gate chan struct{} // if it is not nil, Write waits until it is closed

	mu      sync.Mutex
	records []map[string]any
}

func (*trail) Name() string { return "trail" }
func (*trail) Close() error { return nil }

func (a *trail) Write(ctx context.Context, entries []audit.Entry) (int, error) {
	if a.gate != nil {
		select {
		case <-a.gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		var r map[string]any
		if err := json.Unmarshal(e.Line, &r); err != nil {
			return 0, err
		}
		a.records = append(a.records, r)
	}
	return len(entries), nil
}

// take returns the records that came since the last call, without what differs from run to run.
func (a *trail) take() (records []map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	records, a.records = a.records, nil
	for _, r := range records {
		for _, key := range []string{"time", "duration_ms", "trace_id", "arguments_digest"} {
			delete(r, key)
		}
	}
	return records
}

// audited returns a server with an audit.
func audited(t *testing.T, c audit.Config, opts ...server.Option) (*server.Server, *audit.Log, *trail) {
	t.Helper()
	sink := &trail{}
	c.Sinks = []audit.Sink{sink}
	log, err := audit.New(c)
	require.NoError(t, err)
	srv := newServer(t, append([]server.Option{server.WithAudit(log)}, opts...)...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx)
		_ = log.Close(ctx)
	})
	return srv, log, sink
}

// byToken knows ann, whose scopes are those of her token, refuses bad tokens, and lets callers without
// a token in.
type byToken struct{ byScopes }

func (a byToken) Authenticate(ctx context.Context, c *auth.Caller) (*auth.Principal, error) {
	if strings.HasSuffix(http.Header(c.Header).Get("Authorization"), " bad") {
		return nil, &mcp.Refusal{Status: 401, Reason: "token_expired", By: "tokens"}
	}
	p, err := a.byScopes.Authenticate(ctx, c)
	if p != nil {
		p.Issuer, p.Tenant, p.Client, p.Actors = "https://login.example.com", "acme", "cli", []string{"agent"}
	}
	return p, err
}

// newStaged returns a server whose tools each end at another stage.
func newStaged(t *testing.T) (*server.Server, *trail) {
	srv, _, sink := audited(t, audit.Config{}, server.WithAuthenticator(byToken{}),
		deny(func(_ *auth.Principal, op *auth.Operation) bool { return op.Name == "secret" }),
		server.WithAdmission(func(_ context.Context, req *middleware.Request) error {
			if req.Target == "forbidden" {
				return &mcp.Refusal{Status: 403, Reason: "maintenance", By: "calendar"}
			}
			return nil
		}),
		server.WithRateLimits(middleware.RateLimit{Name: "few", Requests: 1, Window: time.Hour, Tools: []string{"limited"}}),
		server.WithTasks(server.Tasks{}))
	addStaged(srv)
	return srv, sink
}

// addStaged adds the tools of newStaged.
func addStaged(srv *server.Server) {
	add := func(tool server.Tool, h server.ToolHandler[struct{ A int }, string]) { server.AddTool(srv, tool, h) }
	fine := func(context.Context, *server.Call, struct{ A int }) (string, error) { return "fine", nil }
	for _, name := range []string{"fine", "secret", "forbidden", "limited"} {
		add(server.Tool{Name: name}, fine)
	}
	add(server.Tool{Name: "scoped", Scopes: []string{"write"}}, fine)
	add(server.Tool{Name: "wrapped", Middleware: []middleware.Middleware{refusingWith(mcp.Refusal{Status: 429, Reason: "quota", By: "quotas"})}}, fine)
	add(server.Tool{Name: "slow", Deadline: time.Millisecond}, func(ctx context.Context, _ *server.Call, _ struct{ A int }) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	add(server.Tool{Name: "broken"}, func(context.Context, *server.Call, struct{ A int }) (string, error) {
		return "", mcp.ToolErrorf("no")
	})
	add(server.Tool{Name: "panics"}, func(context.Context, *server.Call, struct{ A int }) (string, error) { panic("no") })
}

// A stagedCall is a call of a tool of newStaged, and what its record has beside what all have.
type stagedCall struct {
	tool, arguments string
	want            map[string]any
}

func stagedCalls() []stagedCall {
	shown := func(r map[string]any) map[string]any { // by the policy
		if r["decision"] == nil {
			r["decision"] = "allow"
		}
		if r["rule"] == nil {
			r["rule"] = "shows"
		}
		return r
	}
	return []stagedCall{
		{"fine", `{"A":1}`, shown(map[string]any{"stage": "handler", "outcome": "ok"})},
		{"broken", `{"A":1}`, shown(map[string]any{"stage": "handler", "outcome": "tool_error"})},
		{"panics", `{"A":1}`, shown(map[string]any{"stage": "handler", "outcome": "error", "error_code": -32603.0})},
		{"slow", `{"A":1}`, shown(map[string]any{"stage": "deadline", "outcome": "error", "error_code": -32603.0, "cause": "deadline"})},
		{"fine", `{"A":"x"}`, map[string]any{"decision": "refused", "stage": "schema", "outcome": "refused", "reason": "arguments"}},
		{"secret", `{"A":1}`, map[string]any{"decision": "deny", "rule": "hides", "reason": "it is a secret", "stage": "policy", "outcome": "refused", "error_code": -32602.0}},
		{"scoped", `{"A":1}`, map[string]any{"decision": "need_scopes", "rule": "scopes", "stage": "scope", "outcome": "refused", "error_code": 403.0}},
		{"forbidden", `{"A":1}`, map[string]any{"decision": "refused", "rule": "calendar", "reason": "maintenance", "stage": "admission", "outcome": "refused", "error_code": 403.0}},
		{"limited", `{"A":1}`, shown(map[string]any{"stage": "handler", "outcome": "ok"})},
		{"limited", `{"A":1}`, map[string]any{"decision": "refused", "rule": "few", "reason": "rate_limited", "stage": "rate", "outcome": "refused", "error_code": 429.0}},
		{"wrapped", `{"A":1}`, map[string]any{"decision": "refused", "rule": "quotas", "reason": "quota", "stage": "middleware", "outcome": "refused", "error_code": 429.0}},
		{"unknown", `{"A":1}`, map[string]any{"decision": "allow", "stage": "handler", "outcome": "error", "error_code": -32602.0}},
	}
}

// A call has one record, at whatever stage it ends, in both eras: who, what, decided by which rule, and
// what came of it.
func TestCallsHaveRecords(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, sink := newStaged(t)
				p, frame := dialContext(t, as("read"), srv), modern
				p.conn.SetDeadline(time.Now().Add(time.Minute))
				meta := []string{`"io.modelcontextprotocol/clientInfo":{"name":"new","version":"2"}`}
				name, version := "new", "2"
				if era == "legacy" {
					p.initialize("2025-11-25")
					frame = func(id any, method, params string, _ ...string) string { return legacy(id, method, params) }
					name, version = "old", "9"
				}
				time.Sleep(time.Second)
				sink.take()
				for i, c := range stagedCalls() {
					p.ask(frame(i, "tools/call", call(c.tool, c.arguments), meta...))
					time.Sleep(time.Second)
					want := map[string]any{
						"issuer": "https://login.example.com", "subject": "ann", "tenant": "acme", "client_id": "cli", "actors": []any{"agent"},
						"client_name": name, "client_version": version, "transport": "memory", "session": "memory",
						"request_id": jsonID(i), "operation": "tools/call", "target": c.tool,
					}
					for key, value := range c.want {
						want[key] = value
					}
					require.Equal(t, []map[string]any{want}, sink.take(), c.tool)
				}
			})
		})
	}
}

// Other requests, cancels, notifications of the program, subscriptions and tasks have records, too.
func TestOtherOperationsHaveRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, sink := newStaged(t)
		server.AddNotification(srv, "notifications/com.example/act", "", func(context.Context, *server.Notice, struct{}) {})
		server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		server.AddStaticResource(srv, server.Resource{URI: "x:y", Name: "y"}, "text")
		p := dialContext(t, as("read"), srv)
		check := func(name string, want ...map[string]any) {
			t.Helper()
			time.Sleep(time.Second)
			got := sink.take()
			require.Len(t, got, len(want), "%s: %v", name, got)
			slices.SortFunc(got, func(a, b map[string]any) int { // a call and its cancellation end side by side
				return strings.Compare(fmt.Sprint(a["operation"]), fmt.Sprint(b["operation"]))
			})
			for i, w := range want {
				require.Equal(t, "ann", got[i]["subject"], name)
				for key, value := range w {
					require.Equal(t, value, got[i][key], "%s: %s of %v", name, key, got[i])
				}
			}
		}
		p.ask(modern(1, "resources/read", `"uri":"x:y"`))
		check("read", map[string]any{"operation": "resources/read", "target": "x:y", "outcome": "ok", "decision": "allow", "rule": "shows"})
		p.ask(modern(2, "tools/list", ""))
		check("list", map[string]any{"operation": "tools/list", "outcome": "ok", "decision": "allow", "request_id": "2"})
		p.ask(modern(3, "completion/complete", completion(promptRef("none"), argument("a", ""))))
		check("complete", map[string]any{"operation": "completion/complete", "target": "none", "outcome": "error"})
		p.send(modern("w", "tools/call", call("wait", `{}`)))
		synctest.Wait()
		p.send(cancelled("w"))
		check("cancel",
			map[string]any{"operation": "notifications/cancelled", "target": "w", "outcome": "ok"},
			map[string]any{"operation": "tools/call", "target": "wait", "request_id": "w", "outcome": "cancelled", "cause": "client_cancel", "drop_reason": "cancelled"})
		p.send(cancelled("none"))
		check("late cancel", map[string]any{"operation": "notifications/cancelled", "target": "none", "outcome": "ignored", "reason": "unknown_id"})
		p.send(`{"jsonrpc":"2.0","method":"notifications/com.example/act"}`, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		check("notification", map[string]any{"operation": "notifications/com.example/act", "outcome": "ok"})
		p.ask(modern("s", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
		check("open subscription")
		p.send(cancelled("s"))
		check("subscription", map[string]any{"operation": "notifications/cancelled"},
			map[string]any{"operation": "subscriptions/listen", "request_id": "s", "outcome": "ok", "cause": "client_cancel"})
		p.send(modern("d", "tools/call", call("wait", `{}`)))
		synctest.Wait()
		p.ask(modern("d", "ping", ""))
		check("duplicate id", map[string]any{"operation": "ping", "decision": "refused", "stage": "id", "reason": "duplicate_id"})
		p.hangUp()
		check("hang-up", map[string]any{"target": "wait", "cause": "transport_close"})
	})
}

// The work of a task has a record of its own, with what is known of the call that began it.
func TestTasksHaveRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, sink := audited(t, audit.Config{Strict: true}, server.WithTasks(server.Tasks{}), server.WithAuthenticator(byToken{}))
		server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
			if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
				return "", err
			}
			time.Sleep(time.Minute)
			return "", mcp.ToolErrorf("no")
		})
		client := connectTasks(t, srv)
		task, err := client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		time.Sleep(time.Second)
		started := sink.take()
		last := started[len(started)-1]
		require.Equal(t, "tools/call", last["operation"])
		require.Equal(t, "ok", last["outcome"])
		time.Sleep(time.Hour)
		ended := sink.take()
		require.Len(t, ended, 1, ended)
		require.Equal(t, "tools/call", ended[0]["operation"])
		require.Equal(t, "work", ended[0]["target"])
		require.Equal(t, "task", ended[0]["stage"])
		require.Equal(t, "tool_error", ended[0]["outcome"])
		require.Equal(t, task.Created.TaskID[:8], ended[0]["task"], "not the whole id, with which its caller reads the task")
		require.Equal(t, last["request_id"], ended[0]["request_id"])
	})
}

// Who is not known is counted by network: exchanges that carry no message, and requests.
func TestRefusalsOfUnknownCallersAreCountedTogether(t *testing.T) {
	sink := &trail{}
	log, err := audit.New(audit.Config{Sinks: []audit.Sink{sink}})
	require.NoError(t, err)
	srv := newServer(t, server.WithAudit(log), server.WithAuthenticator(byToken{}), server.WithAllowedHosts("good.example"))
	server.AddTool(srv, server.Tool{Name: "scoped", Scopes: []string{"write"}}, text("ok"))
	url := listen(t, srv)
	const host = "Host: good.example"
	for range 3 {
		exchange(t, "POST", url, modern(1, "ping", ""), "Host: evil.example")
		exchange(t, "POST", url, modern(1, "ping", ""), host, "Origin: https://evil.example")
		exchange(t, "POST", url, modern(1, "ping", ""), host, "Authorization: Bearer bad")
		exchange(t, "POST", url, modern(1, "tools/call", call("scoped", `{}`)), append(modernHeaders("tools/call", "scoped"), host)...)
		exchange(t, "PUT", url, "", host)
		exchange(t, "POST", url, legacy(1, "tools/list", ""), host)
		exchange(t, "POST", url, legacy(1, "tools/list", ""), host, "Mcp-Session-Id: none")
		exchange(t, "DELETE", url, "", host, "Mcp-Session-Id: none")
	}
	exchange(t, "PUT", url, "", host, "Authorization: Bearer read")
	session := begin(t, url, mcp.Version20251125, host, "Authorization: Bearer read")
	exchange(t, "DELETE", url, "", host, session, "Authorization: Bearer read")
	require.NoError(t, srv.Shutdown(t.Context()))
	require.NoError(t, log.Close(t.Context()))
	counts := map[string]float64{}
	for _, r := range sink.take() {
		switch {
		case r["operation"] == "audit/refused":
			require.Equal(t, "127.0.0.0/24", r["address"])
			require.Equal(t, "refused", r["outcome"])
			require.NotContains(t, r, "subject")
			counts[r["stage"].(string)+" "+r["reason"].(string)] += r["count"].(float64)
		default:
			require.Equal(t, "ann", r["subject"])
			counts[r["operation"].(string)+" "+r["stage"].(string)+" "+r["outcome"].(string)]++
			if r["operation"] == "DELETE" {
				require.Contains(t, session, r["target"])
				require.Len(t, r["target"], 8, "a session's id is a secret")
			}
		}
	}
	require.Equal(t, map[string]float64{
		"host host": 3, "origin origin": 3, "token token_expired": 3, "scope unauthenticated": 3, "http method": 3,
		"session not_initialized": 3, "session session_unknown": 6,
		"PUT http refused": 1, "initialize handler ok": 1, "DELETE handler ok": 1,
	}, counts)
}

// A strict server refuses calls for whose records there is no place: before anything else is asked. The
// sink hurts nothing else, and calls are served again when there are places.
func TestStrictAuditRefusesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		sink := &trail{gate: gate}
		log, err := audit.New(audit.Config{Sinks: []audit.Sink{sink}, Strict: true, MaxRecords: 3})
		require.NoError(t, err)
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newServer(t, server.WithAudit(log), server.WithAuthenticator(byToken{}), server.WithTelemetry(tel))
		served := 0
		server.AddTool(srv, server.Tool{Name: "x", Scopes: []string{"admin"}}, func(context.Context, *server.Call, none) (string, error) {
			served++
			return "ok", nil
		})
		p := dialContext(t, as("admin"), srv)
		for id := range 3 {
			require.Contains(t, p.ask(modern(id, "tools/call", call("x", `{}`))), "ok")
		}
		refused := p.ask(modern(4, "tools/call", call("x", `{}`)))
		require.JSONEq(t, `{"jsonrpc":"2.0","id":4,"error":{"code":503,"message":"this cannot be had now","data":{"reason":"audit","limit":"audit_queue","retryAfter":1}}}`, refused)
		require.Equal(t, 3, served)
		p.send(modern("w", "ping", ""))
		require.Contains(t, p.recv(), `"audit"`)
		close(gate)
		time.Sleep(time.Second)
		require.Contains(t, p.ask(modern(5, "tools/call", call("x", `{}`))), "ok")
		require.NoError(t, p.hangUp())
		require.NoError(t, srv.Shutdown(t.Context()))
		require.NoError(t, log.Close(t.Context()))
		calls, refusals := 0, 0.0
		for _, r := range sink.take() {
			switch r["operation"] {
			case "tools/call":
				calls++
			case "audit/refused":
				require.Equal(t, "audit", r["stage"])
				refusals += r["count"].(float64)
			default:
				t.Errorf("unexpected: %v", r)
			}
		}
		require.Equal(t, 4, calls, "each call has its record")
		require.Equal(t, 2.0, refusals)
		require.Empty(t, log.Stats()[0].Lost)
	})
}

// Without a strict log a sink that hangs loses records and delays no call.
func TestHangingSinkDelaysNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := audit.New(audit.Config{Sinks: []audit.Sink{&trail{gate: make(chan struct{})}}, MaxRecords: 2})
		require.NoError(t, err)
		srv := newServer(t, server.WithAudit(log))
		p := dial(t, srv)
		began := time.Now()
		for id := range 10 {
			require.Contains(t, p.ask(modern(id, "tools/list", "")), `"result"`)
		}
		require.Equal(t, began, time.Now())
		require.NoError(t, p.hangUp())
		require.Equal(t, uint64(8), log.Stats()[0].Lost[audit.LostFull])
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, log.Close(ctx), "records were not written")
	})
}

// A notification that comes too often has a record, too. Those of unknown callers are counted together.
func TestRefusedNotificationsHaveRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const act = "notifications/com.example/act"
		srv, _, sink := audited(t, audit.Config{}, server.WithAuthenticator(byToken{}), hourly("acts", 1, forMethods(act)))
		server.AddNotification(srv, act, "", func(context.Context, *server.Notice, struct{}) {})
		known, unknown := dialContext(t, as("read"), srv), dial(t, srv)
		for range 3 {
			known.send(`{"jsonrpc":"2.0","method":"` + act + `"}`)
			synctest.Wait()
			unknown.send(`{"jsonrpc":"2.0","method":"` + act + `"}`)
			synctest.Wait()
		}
		time.Sleep(2 * time.Minute)
		var texts []string
		for _, r := range sink.take() {
			texts = append(texts, strings.TrimSpace(fmt.Sprintln(r["subject"], r["operation"], r["stage"], r["reason"], r["rule"], r["count"])))
		}
		require.Equal(t, []string{
			"ann " + act + " handler <nil> <nil> <nil>", "ann " + act + " rate rate_limited acts <nil>", "ann " + act + " rate rate_limited acts <nil>",
			"<nil> audit/refused rate rate_limited <nil> 3",
		}, texts)
	})
}
