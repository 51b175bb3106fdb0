package server_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// The policies are asked again, as for a call. A task that they refuse does not begin again, and the audit says so.
func TestPoliciesDecideAboutFurtherRuns(t *testing.T) {
	for _, effect := range []auth.Effect{auth.Deny, auth.NeedScopes} {
		var freezes atomic.Bool
		policy := auth.PolicyFunc(func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
			if freezes.Load() && op.Method == mcp.MethodToolsCall && !op.Listed {
				require.Equal(t, "servertest", op.ClientName)
				require.Equal(t, []string{"read", "write"}, p.Scopes)
				return auth.Decision{Effect: effect, Scopes: []string{"admin"}, Rule: "freeze"}
			}
			return auth.Decision{Effect: auth.Allow}
		})
		inAuditedReplicas(t, func(t *testing.T, r *restarting, sink *trail) {
			first, task := r.start(t)
			freezes.Store(true)
			r.links[0].cut.Store(true)
			require.Equal(t, map[string]any{"reason": "replica_lost"}, r.fails(t, task, 1))
			require.Len(t, r.logged("task.lost"), 1)
			require.Empty(t, r.logged("task.taken_over"))
			require.Equal(t, 1, r.total(t, "vitrine_tasks_lost_total"))
			first.finish("late")
			synctest.Wait()
			refused := sink.having("outcome", "refused")
			require.Len(t, refused, 1)
			require.Equal(t, "freeze", refused[0]["rule"])
			require.Equal(t, "work", refused[0]["target"])
			require.Equal(t, "ann", refused[0]["subject"])
		}, server.WithPolicy(policy))
	}
}

// A further run has a record in the audit and a span of its own, in the trace of the call.
func TestFurtherRunIsInTheTraceOfItsCall(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tel, err := telemetry.New(telemetry.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
	require.NoError(t, err)
	inAuditedReplicas(t, func(t *testing.T, r *restarting, sink *trail) {
		first, task := r.start(t)
		r.links[0].cut.Store(true)
		again, _ := r.next(t, task, 1)
		again.finish("done")
		r.links[0].cut.Store(false)
		time.Sleep(15 * time.Second)
		first.finish("late")
		synctest.Wait()
		var runs, calls []sdktrace.ReadOnlySpan
		for _, s := range spans.Ended() {
			switch s.Name() {
			case "vitrine.task work":
				runs = append(runs, s)
			case "tools/call work":
				calls = append(calls, s)
			}
		}
		require.Len(t, calls, 1, "a further run is no call")
		call := calls[0].SpanContext()
		require.Len(t, runs, 2)
		require.Contains(t, runs[0].Attributes(), attribute.Int("vitrine.task.run", 2))
		require.Contains(t, runs[0].Attributes(), attribute.String("vitrine.task.status", "completed"))
		require.Contains(t, runs[1].Attributes(), attribute.String("vitrine.cancel.cause", "replica_lost"))
		for _, run := range runs {
			require.Equal(t, call.TraceID(), run.SpanContext().TraceID())
			require.Equal(t, call.SpanID(), run.Parent().SpanID())
			require.Equal(t, call.SpanID(), run.Links()[0].SpanContext.SpanID())
		}

		recorded := sink.having("stage", "task")
		require.Len(t, recorded, 2)
		require.Equal(t, "ok", recorded[0]["outcome"])
		require.Equal(t, "replica_lost", recorded[1]["cause"])
		for _, rec := range recorded {
			require.Equal(t, call.TraceID().String(), rec["trace_id"])
			require.Equal(t, "work", rec["target"])
			require.Equal(t, "ann", rec["subject"])
		}
	}, server.WithTelemetry(tel))
}

// A principal is stored with its claims. One with claims that JSON would change is not: a policy could take it for
// another one.
func TestPrincipalOfAFurtherRun(t *testing.T) {
	for name, tt := range map[string]struct {
		claims map[string]any
		again  bool
	}{
		"claims":     {map[string]any{"level": 3.5, "groups": []any{"dev", "ops"}, "address": map[string]any{"city": "Bern"}, "none": nil}, true},
		"no claims":  {nil, true},
		"no JSON":    {map[string]any{"level": func() {}}, false},
		"other type": {map[string]any{"level": 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ann := &auth.Principal{
				Issuer: "https://id.example", Subject: "ann", Tenant: "acme", Client: "cli", Scopes: []string{"read", "write"}, Actors: []string{"agent"},
				Expires: time.Date(2100, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)), Claims: tt.claims,
			}
			known := server.WithAuthenticator(auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) { return ann, nil }))
			inRestartingReplicas(t, func(t *testing.T, r *restarting) {
				first, task := r.start(t)
				r.links[0].cut.Store(true)
				if !tt.again {
					require.Len(t, r.logged("task.not_restartable"), 1)
					r.fails(t, task, 1)
				} else {
					again, _ := r.next(t, task, 1)
					got := *again.call.Principal
					require.True(t, ann.Expires.Equal(got.Expires))
					got.Expires = ann.Expires
					require.Equal(t, *ann, got)
					again.finish("done")
				}
				first.finish("late")
			}, known)
		})
	}
}

// What a client has answered before the call became a task is not stored. The further run asks again, as a task.
func TestFurtherRunAsksWhatTheCallHasAsked(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		held := make(chan string, 3)
		for _, srv := range r.all {
			server.AddTool(srv, server.Tool{Name: "greet", Task: server.TaskRequired, Restartable: true},
				func(ctx context.Context, call *server.Call, _ none) (string, error) {
					var kept bool
					known, err := call.Kept(&kept)
					if err != nil {
						return "", err
					}
					if err := call.Keep(true); err != nil {
						return "", err
					}
					answer, err := call.Elicit("name", textForm("name"))
					if err != nil {
						return "", err
					}
					ctx, err = call.Detach(ctx, server.TaskOptions{})
					if err != nil {
						return "", err
					}
					held <- fmt.Sprintf("%s known=%t", answer.Content, known)
					<-ctx.Done()
					return "", context.Cause(ctx)
				})
		}
		as := servertest.Context(context.WithValue(t.Context(), whoKey{}, annsToken+" read write"))
		asked := connectTasks(t, r.all[0], as, servertest.OnInput(func(context.Context, servertest.Question) (any, error) {
			return accept("name", "Eve"), nil
		}))
		started, err := asked.StartTask(t.Context(), "greet", nil)
		require.NoError(t, err)
		require.Equal(t, `{"name":"Eve"} known=true`, <-held)
		raw, err := r.links[1].Get(t.Context(), "task/{"+started.Created.TaskID+"}")
		require.NoError(t, err)
		require.NotContains(t, string(raw), "Eve")
		require.NotContains(t, string(raw), "requestState")
		r.links[0].cut.Store(true)
		task := r.clients[1].Task(started.Created)
		state, err := task.Await(t.Context(), mcp.TaskInputRequired)
		require.NoError(t, err)
		require.Contains(t, state.Questions, "name-run2")
		require.NoError(t, task.Answer(t.Context(), map[string]any{"name-run2": accept("name", "Ada")}))
		require.Equal(t, `{"name":"Ada"} known=false`, <-held)
		require.NoError(t, task.Cancel(t.Context()))
	})
}

// inAuditedReplicas runs a test with restarting replicas that have one audit.
func inAuditedReplicas(t *testing.T, test func(t *testing.T, r *restarting, sink *trail), opts ...server.Option) {
	synctest.Test(t, func(t *testing.T) {
		sink := &trail{}
		log, err := audit.New(audit.Config{Sinks: []audit.Sink{sink}, Strict: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, log.Close(context.Background())) })
		test(t, newRestarting(t, append(opts, server.WithAudit(log))...), sink)
	})
}

// having returns the records so far that have a value.
func (a *trail) having(key, value string) (records []map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.records {
		if r[key] == value {
			records = append(records, r)
		}
	}
	return records
}
