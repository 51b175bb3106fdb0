package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// nameList returns a list of so many short texts, each of which takes about seven times its text as a Go value.
func nameList(n int) string { return "[" + strings.Repeat(`"name",`, n) + `"name"]` }

// nameForm is a form whose answer is a list of texts.
type nameForm struct {
	Names []string `json:"names" enum:"name"`
}

// decodedAnswers are the questions whose answers become Go values.
var decodedAnswers = map[string]struct {
	ask    func(*server.Call) error
	answer func(n int) string // takes about 400 bytes for each of n
}{
	"roots": {
		func(call *server.Call) error { _, err := call.Roots("k"); return err },
		func(n int) string {
			return fmt.Sprintf(`{"roots":[{"uri":"file:///a","_meta":{"any":%s}}]}`, objects(n))
		},
	},
	"sampling": {
		func(call *server.Call) error {
			_, err := call.Sample("k", &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser}}})
			return err
		},
		func(n int) string {
			return fmt.Sprintf(`{"role":"user","model":"m","content":{"type":"text","text":"x","_meta":{"any":%s}}}`, objects(n))
		},
	},
	"form": {
		func(call *server.Call) error { _, _, err := server.ElicitForm[nameForm](call, "k", "m"); return err },
		func(n int) string { return fmt.Sprintf(`{"action":"accept","content":{"names":%s}}`, nameList(8*n)) },
	},
}

// What clients answer is asked for again if it takes too much memory, in both eras.
func TestLargeAnswersAreAskedForAgain(t *testing.T) {
	for name, tt := range decodedAnswers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tel, err := telemetry.New()
				require.NoError(t, err)
				srv := newServer(t, server.WithTelemetry(tel), server.WithLimits(server.Limits{MaxArgumentBytesTotal: 1 << 20}))
				server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
					return "done", tt.ask(call)
				})
				large, small := tt.answer(3000), tt.answer(1000)
				p := dial(t, srv)
				asked, _ := round(t, p, call("t", "{}"))
				again, answer := round(t, p, retry(call("t", "{}"), asked.RequestState, "k", large))
				require.Contains(t, again.InputRequests, "k", answer)
				_, answer = round(t, p, retry(call("t", "{}"), again.RequestState, "k", small))
				require.Contains(t, answer, "done")

				p.ask(legacy("init", "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
				p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacy(2, "tools/call", call("t", "{}")))
				require.Contains(t, p.recv(), `"id":1,`)
				require.Contains(t, p.ask(`{"jsonrpc":"2.0","id":1,"result":`+large+`}`), `"id":2,"method"`)
				require.Contains(t, p.ask(`{"jsonrpc":"2.0","id":2,"result":`+small+`}`), "done")
				require.NoError(t, srv.Shutdown(t.Context()))
			})
		})
	}
}

// The Go values of answers count until their handlers have returned, and a call for whose answer there is no room is refused.
func TestValuesOfAnswersCount(t *testing.T) {
	for name, tt := range decodedAnswers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tel, err := telemetry.New()
				require.NoError(t, err)
				srv := newServer(t, server.WithTelemetry(tel), server.WithLimits(server.Limits{MaxArgumentBytesTotal: 1 << 20}))
				finish, asked := make(chan struct{}), 0
				server.AddTool(srv, server.Tool{Name: "keep"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
					if err := tt.ask(call); err != nil {
						return "", err
					}
					asked++
					<-finish
					return "kept", nil
				})
				p := dial(t, srv)
				first, _ := round(t, p, call("keep", "{}"))
				p.send(asking(2, "tools/call", retry(call("keep", "{}"), first.RequestState, "k", tt.answer(1000))))
				synctest.Wait()
				require.Equal(t, 1, asked)
				require.InDelta(t, 400_000, heldBytes(t, tel), 100_000)

				second, _ := round(t, p, call("keep", "{}"))
				again := asking(3, "tools/call", retry(call("keep", "{}"), second.RequestState, "k", tt.answer(1500)))
				refused := p.ask(again)
				require.Contains(t, refused, `"reason":"overload"`)
				require.Contains(t, refused, `"limit":"max_argument_bytes_total"`)
				require.Equal(t, 1, asked)

				close(finish)
				require.Contains(t, p.recv(), "kept")
				synctest.Wait()
				require.Zero(t, heldBytes(t, tel))
				require.Contains(t, p.ask(again), "kept")
				synctest.Wait()
				require.Zero(t, heldBytes(t, tel))
				require.NoError(t, srv.Shutdown(t.Context()))
			})
		})
	}
}

// Each run of a handler of a legacy client gives back what its answers have taken, and so does a run that panics.
func TestValuesOfAnswersAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newServer(t, server.WithTelemetry(tel), server.WithLimits(server.Limits{MaxArgumentBytesTotal: 1 << 20}))
		var held []int // as each run begins
		both := 0
		server.AddTool(srv, server.Tool{Name: "twice"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			held = append(held, heldBytes(t, tel))
			if _, err := call.Roots("a"); err != nil {
				return "", err
			}
			if _, err := call.Roots("b"); err != nil {
				return "", err
			}
			both = heldBytes(t, tel)
			panic("not today")
		})
		p := dial(t, srv)
		p.ask(legacy("init", "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacy(2, "tools/call", call("twice", "{}")))
		roots := decodedAnswers["roots"].answer(700)
		require.Contains(t, p.recv(), `"id":1,`)
		require.Contains(t, p.ask(`{"jsonrpc":"2.0","id":1,"result":`+roots+`}`), `"id":2,"method"`)
		require.Contains(t, p.ask(`{"jsonrpc":"2.0","id":2,"result":`+roots+`}`), "internal error")
		synctest.Wait()
		require.Equal(t, []int{0, 0, 0}, held)
		require.InDelta(t, 2*288_000, both, 50_000)
		require.Zero(t, heldBytes(t, tel))
		require.NoError(t, srv.Shutdown(t.Context()))
	})
}

// An answer for which there is never room beside the arguments and earlier answers is asked for again, and is not an overload.
func TestAnswersThatTogetherAreTooLarge(t *testing.T) {
	srv := newServer(t, server.WithLimits(server.Limits{MaxArgumentBytesTotal: 1 << 20}))
	server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		_, errA := call.Roots("a")
		_, errB := call.Roots("b")
		return "done", errors.Join(errA, errB)
	})
	p, roots := dial(t, srv), decodedAnswers["roots"].answer
	asked, _ := round(t, p, call("t", "{}"))
	again, answer := round(t, p, retry(call("t", "{}"), asked.RequestState, "a", roots(1200), "b", roots(1200)))
	require.Contains(t, again.InputRequests, "b", answer)
	require.NotContains(t, again.InputRequests, "a")
	_, answer = round(t, p, retry(call("t", "{}"), again.RequestState, "b", roots(100)))
	require.Contains(t, answer, "done")

	server.AddTool(srv, server.Tool{Name: "full"}, func(_ context.Context, call *server.Call, _ struct {
		Any any `json:"any"`
	}) (string, error) {
		_, err := call.Roots("a")
		return "done", err
	})
	large := call("full", `{"any":`+objects(1200)+`}`)
	asked, _ = round(t, p, large)
	again, answer = round(t, p, retry(large, asked.RequestState, "a", roots(1200)))
	require.Contains(t, again.InputRequests, "a", answer)
	_, answer = round(t, p, retry(large, again.RequestState, "a", roots(100)))
	require.Contains(t, answer, "done")
}

// Answers to the questions of a task count until its handler has returned. An answer for which there is no room is refused, and
// the question stays open.
func TestValuesOfAnswersOfTasksCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newTaskServer(t, server.WithTelemetry(tel), server.WithLimits(server.Limits{MaxArgumentBytesTotal: 1 << 20}))
		finish := make(chan struct{})
		server.AddTool(srv, server.Tool{Name: "keep", Task: server.TaskRequired}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
			if _, err := call.Detach(ctx, server.TaskOptions{}); err != nil {
				return "", err
			}
			if _, _, err := server.ElicitForm[nameForm](call, "k", "m"); err != nil {
				return "", err
			}
			<-finish
			return "kept", nil
		})
		client := connectTasks(t, srv)
		start := func() *servertest.Task {
			task, err := client.StartTask(t.Context(), "keep", nil)
			require.NoError(t, err)
			_, err = task.Await(t.Context(), mcp.TaskInputRequired)
			require.NoError(t, err)
			return task
		}
		answer := func(task *servertest.Task, n int) error {
			return task.Answer(t.Context(), map[string]any{"k": jsontext.Value(decodedAnswers["form"].answer(n))})
		}
		first, second := start(), start()
		require.NoError(t, answer(first, 1000))
		synctest.Wait()
		one := heldBytes(t, tel)
		require.InDelta(t, 400_000, one, 100_000)
		for range 3 {
			var refused *mcp.Error
			require.ErrorAs(t, answer(second, 1500), &refused)
			require.Equal(t, map[string]any{"reason": "overload", "limit": "max_argument_bytes_total"}, refused.Data)
		}
		require.Equal(t, one, heldBytes(t, tel))
		state, err := second.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskInputRequired, state.Status)

		close(finish)
		_, err = first.Result(t.Context())
		require.NoError(t, err)
		require.NoError(t, answer(second, 1500))
		_, err = second.Result(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.Zero(t, heldBytes(t, tel))
		require.NoError(t, srv.Shutdown(t.Context()))
	})
}

// A large form can be answered long after its call was: the context of the call has ended then.
func TestLargeAnswerOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t)
		server.AddTool(srv, server.Tool{Name: "ask", Task: server.TaskRequired}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
			_, err := call.Detach(ctx, server.TaskOptions{})
			if err != nil {
				return "", err
			}
			_, _, formErr := server.ElicitForm[nameForm](call, "form", "m")
			_, rawErr := call.Elicit("raw", &mcp.ElicitParams{Message: "m", RequestedSchema: jsontext.Value(
				`{"type":"object","properties":{"names":{"type":"array","items":{"type":"string","enum":["name"]}}}}`)})
			return "done", errors.Join(formErr, rawErr)
		})
		client := connectTasks(t, srv)
		task, err := client.StartTask(t.Context(), "ask", nil)
		require.NoError(t, err)
		for _, key := range []string{"form", "raw"} {
			_, err = task.Await(t.Context(), mcp.TaskInputRequired)
			require.NoError(t, err)
			require.NoError(t, task.Answer(t.Context(), map[string]any{key: jsontext.Value(decodedAnswers["form"].answer(6000))}))
		}
		result, err := task.Result(t.Context())
		require.NoError(t, err)
		require.False(t, result.IsError, result)
		require.NoError(t, srv.Shutdown(t.Context()))
	})
}
