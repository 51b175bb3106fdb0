package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

func recordedTelemetry(t *testing.T, opts ...telemetry.Option) (*telemetry.Telemetry, *tracetest.SpanRecorder, *prometheus.Registry) {
	spans, registry := tracetest.NewSpanRecorder(), prometheus.NewRegistry()
	tel, err := telemetry.New(append([]telemetry.Option{telemetry.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))),
		telemetry.WithRegistry(registry), telemetry.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	require.NoError(t, err)
	return tel, spans, registry
}

// If the Error method of a handler's error panics, the process goes on.
func TestTaskErrorPanics(t *testing.T) {
	for _, kind := range []string{"error", "toolerror", "refusal", "sub"} {
		if os.Getenv("EYES") == "" {
			if kind == "sub" {
				continue
			}
			t.Run(kind, func(t *testing.T) {
				cmd := exec.Command(os.Args[0], "-test.run=^TestTaskErrorPanics$", "-test.timeout=20s")
				cmd.Env = append(os.Environ(), "EYES="+kind)
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "the process has ended:\n%.900s", out)
			})
		}
	}
	kind := os.Getenv("EYES")
	if kind == "" {
		return
	}
	tel, _, _ := recordedTelemetry(t)
	logs := &logRecorder{}
	srv := newTaskServer(t, server.WithTelemetry(tel), server.WithLogger(slog.New(logs)))
	jobs := addJob(srv, "work", false, server.TaskOptions{})
	task, err := connectTasks(t, srv).StartTask(t.Context(), "work", nil)
	require.NoError(t, err)
	(<-jobs).release <- func() (string, error) {
		switch kind {
		case "error":
			return "", (*explosive)(nil)
		case "toolerror":
			var none *mcp.ToolError
			return "", none
		}
		var none *mcp.Refusal
		return "", none
	}
	state, err := task.Await(t.Context())
	require.NoError(t, err)
	require.Equal(t, mcp.TaskFailed, state.Status)
	require.Len(t, logs.find("handler.panic"), 1)
}

type explosive struct{ text string }

func (e *explosive) Error() string { return e.text }

// A caller whose initialize is refused evicts no session.
func TestRefusedInitializeEvicts(t *testing.T) {
	srv := newServer(t, byAuthorization, server.WithLimits(server.Limits{MaxSessions: 1}),
		server.WithAdmission(func(_ context.Context, req *middleware.Request) error {
			if req.Principal == nil {
				return &mcp.Refusal{Status: 401, Reason: "no_token", By: "rule"}
			}
			return nil
		}))
	url := listen(t, srv)
	session := begin(t, url, mcp.Version20251125, "Authorization: ann")
	res, body := exchange(t, "POST", url, legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
	require.Equal(t, 401, res.StatusCode, body)
	res, body = exchange(t, "POST", url, legacy(2, "ping", ""), session, "Authorization: ann")
	require.Equal(t, 200, res.StatusCode, body)
	require.Empty(t, srv.Core().Snapshot().Counters.SessionsClosed)
}

// The log and the span have the text of a rule's refusal.
func TestOperatorSeesWhyARuleRefuses(t *testing.T) {
	logs := &logRecorder{}
	tel, spans, _ := recordedTelemetry(t)
	srv := newServer(t, server.WithTelemetry(tel), server.WithLogger(slog.New(logs)), server.WithAdmission(func(context.Context, *middleware.Request) error {
		return &mcp.Refusal{Status: 403, Reason: "policy", By: "opa", Err: errors.New("the rule's own words")}
	}))
	p := dial(t, srv)
	require.Contains(t, p.ask(modern(1, "tools/list", "")), "403")
	require.NoError(t, p.hangUp())
	all := fmt.Sprint(logs.find("request.rejected"))
	for _, s := range spans.Ended() {
		all += fmt.Sprint(s.Attributes(), s.Events(), s.Status())
	}
	require.Contains(t, all, "the rule's own words")
	require.Contains(t, all, "opa")
}

// A caller's fault never counts against the service, whatever it wraps.
func TestCallerFault(t *testing.T) {
	for name, err := range map[string]error{
		"rpc":      mcp.CallerFault(mcp.NewError(1001, "no such order")),
		"two":      mcp.ToolErrorf("%w: %w", errors.New("order"), mcp.CallerFault(errors.New("unknown"))),
		"tool one": mcp.ToolErrorf("x: %w", mcp.CallerFault(errors.New("unknown"))),
	} {
		for _, asTask := range []bool{false, true} {
			t.Run(fmt.Sprint(name, asTask), func(t *testing.T) {
				tel, spans, _ := recordedTelemetry(t)
				srv := newTaskServer(t, server.WithTelemetry(tel))
				server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
					if asTask {
						if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
							return "", err
						}
					}
					return "", err
				})
				client := connectTasks(t, srv)
				_, _ = client.CallTool(t.Context(), "work", nil)
				require.NoError(t, srv.Shutdown(t.Context()))
				for _, s := range spans.Ended() {
					require.NotEqual(t, codes.Error, s.Status().Code, "%s %v", s.Name(), s.Attributes())
				}
			})
		}
	}
}

// A refusal is counted, also as the end of a task.
func TestRefusalOfATask(t *testing.T) {
	srv := newTaskServer(t)
	jobs := addJob(srv, "work", false, server.TaskOptions{})
	task, err := connectTasks(t, srv).StartTask(t.Context(), "work", nil)
	require.NoError(t, err)
	(<-jobs).release <- func() (string, error) { return "", &mcp.Refusal{Status: 429, Reason: "quota", By: "upstream"} }
	state, err := task.Await(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 429, state.Error.Code)
	require.NoError(t, srv.Shutdown(t.Context())) // a task that has ended is counted a moment later
	require.Len(t, srv.Core().Snapshot().Counters.Refused, 1)
}

// The span of a task has the error behind a tool error.
func TestTaskSpanHasTheError(t *testing.T) {
	tel, spans, _ := recordedTelemetry(t)
	srv := newTaskServer(t, server.WithTelemetry(tel))
	jobs := addJob(srv, "work", false, server.TaskOptions{})
	task, err := connectTasks(t, srv).StartTask(t.Context(), "work", nil)
	require.NoError(t, err)
	(<-jobs).release <- func() (string, error) {
		return "", &mcp.ToolError{Text: "try later", Err: errors.New("disk 7 is full")}
	}
	_, err = task.Await(t.Context())
	require.NoError(t, err)
	require.NoError(t, srv.Shutdown(t.Context()))
	all := ""
	for _, s := range spans.Ended() {
		if s.Name() == "vitrine.task work" {
			all += fmt.Sprint(s.Events())
		}
	}
	require.Contains(t, all, "disk 7 is full")
}

// The context of a rule has a deadline.
func TestRuleOutlivesItsDeadline(t *testing.T) {
	over := make(chan bool, 1)
	srv := newServer(t, server.WithLimits(server.Limits{RequestTimeout: 50 * time.Millisecond}), server.WithAdmission(func(ctx context.Context, _ *middleware.Request) error {
		_, has := ctx.Deadline()
		require.True(t, has)
		select {
		case <-ctx.Done():
			over <- true
		case <-time.After(2 * time.Second):
			over <- false
		}
		return ctx.Err()
	}))
	p := dial(t, srv)
	p.send(modern(1, "tools/list", ""))
	require.True(t, <-over)
}

// The duration of a notification counts for the tenant of its sender.
func TestTenantOfANotification(t *testing.T) {
	tel, _, registry := recordedTelemetry(t, telemetry.WithTenants(3))
	srv := newServer(t, server.WithTelemetry(tel), server.WithAuthenticator(auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) {
		return &auth.Principal{Subject: "ann", Tenant: "acme"}, nil
	})))
	heard := make(chan struct{})
	server.AddNotification(srv, "notifications/com.example/thing", "", func(context.Context, *server.Notice, struct{}) { close(heard) })
	p := dial(t, srv)
	p.send(notice("notifications/com.example/thing", `{}`))
	<-heard
	require.NoError(t, p.hangUp())
	families, err := registry.Gather()
	require.NoError(t, err)
	found := false
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "tenant" {
					found = true
					require.Equal(t, "acme", l.GetValue(), f.GetName(), m.Label)
				}
			}
		}
	}
	require.True(t, found)
}

// A typed nil of a plain handler fails its request and nothing else.
func TestTypedNilErrors(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "a"}, func(context.Context, *server.Call, none) (string, error) { var e *mcp.Error; return "", e })
	server.AddPrompt(srv, server.Prompt{Name: "a"}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
		var e *mcp.Error
		return nil, e
	})
	p := dial(t, srv)
	t.Log(p.ask(modern(1, "tools/call", call("a", `{}`))))
	t.Log(p.ask(modern(2, "prompts/get", `"name":"a"`)))
	_ = http.StatusOK
}

// The refusal of a notification by a middleware is counted.
func TestRefusedNotification(t *testing.T) {
	srv := newServer(t, server.WithMiddleware(func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			if req.ID.IsZero() {
				return middleware.Refuse(mcp.Refusal{Status: 429, Reason: "quota", By: "rate"})
			}
			return next(ctx, req)
		}
	}))
	server.AddNotification(srv, "notifications/com.example/thing", "", func(context.Context, *server.Notice, struct{}) {})
	p := dial(t, srv)
	p.send(notice("notifications/com.example/thing", `{}`))
	require.NoError(t, p.hangUp())
	require.Len(t, srv.Core().Snapshot().Counters.Refused, 1)
}

// Log, span and snapshot of a task have its principal.
func TestPrincipalOfATask(t *testing.T) {
	logs := &logRecorder{}
	tel, spans, _ := recordedTelemetry(t)
	srv := newTaskServer(t, byContext, server.WithTelemetry(tel), server.WithLogger(slog.New(logs)))
	held := make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
		if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
			return "", err
		}
		held <- struct{}{}
		<-held
		panic("boom")
	})
	p := dialContext(t, as("ada"), srv)
	p.ask(withCaps(1, "tools/call", withTasks, call("work", `{}`)))
	<-held
	w := httptest.NewRecorder()
	tel.RequestsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/debug/requests", nil))
	_, tasks, _ := strings.Cut(w.Body.String(), `"tasks": [`)
	require.Contains(t, tasks, `"principal": "ada"`)
	held <- struct{}{}
	require.NoError(t, srv.Shutdown(t.Context()))
	require.Equal(t, "ada", logs.find("handler.panic")[0].attrs["principal"])
	for _, s := range spans.Ended() {
		require.Contains(t, fmt.Sprint(s.Attributes()), "ada", s.Name())
	}
}

// A sending middleware that ends its goroutine answers its question with an error.
func TestSendingGoexit(t *testing.T) {
	asked := 0
	srv := newAsking(t, func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			asked++
			runtime.Goexit()
			return next(ctx, req)
		}
	})
	_, answer := askedOf(t, srv, mcp.Version20251125)
	require.Contains(t, answer, "not asked")
	require.Equal(t, 1, asked)
}
