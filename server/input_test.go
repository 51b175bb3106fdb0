package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

const anyForm = `"v":{"type":"string"}`

// Prompts and resources ask as tools do.
func TestPromptsAndResourcesAsk(t *testing.T) {
	eachWay(t, "", func(t *testing.T, ask asker) {
		srv := newServer(t)
		server.AddPrompt(srv, server.Prompt{Name: "p"}, func(_ context.Context, call *server.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
			r, err := call.Elicit("k", form("k", anyForm))
			if err != nil {
				return nil, err
			}
			return mcp.PromptText(string(r.Content)), nil
		})
		server.AddResource(srv, server.Resource{URI: "test://r", Name: "r"}, func(_ context.Context, call *server.Call, _ string) (string, error) {
			r, err := call.Elicit("k", form("k", anyForm))
			if err != nil {
				return "", err
			}
			return string(r.Content), nil
		})
		for method, params := range map[string]string{
			mcp.MethodPromptsGet: `"name":"p"`, mcp.MethodResourcesRead: `"uri":"test://r"`,
		} {
			got := ask(t, srv, method, params, counting(t, map[string]int{}))
			require.Contains(t, got, `{\"v\":\"k1\"}`, method)
		}
	})
}

// Only three methods of the modern era have a result that asks.
func TestOtherMethodsCannotAsk(t *testing.T) {
	srv := newServer(t)
	var seen error
	server.AddPrompt(srv, server.Prompt{Name: "p", Arguments: []server.PromptArgument{{
		Name: "a", Complete: func(_ context.Context, call *server.Call, _ string, _ map[string]string) ([]string, error) {
			_, seen = call.Roots("k")
			return []string{"done"}, seen
		},
	}}}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil })
	const params = `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`
	require.Contains(t, dial(t, srv).ask(asking(1, "completion/complete", params)), `-32603`)
	require.ErrorIs(t, seen, mcp.ErrNoBackChannel)

	got := askMemory(t, srv, mcp.Version20251125, "completion/complete", params, func(servertest.Question) string { return `{"roots":[]}` })
	require.Contains(t, got, "done")
}

// A handler that returns ErrInputRequired without a question is a fault, and the log says so.
func TestInputRequiredWithoutAQuestion(t *testing.T) {
	rec := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(rec)))
	server.AddTool(srv, server.Tool{Name: "t"}, func(context.Context, *server.Call, none) (string, error) { return "", mcp.ErrInputRequired })
	require.JSONEq(t, failure(1, -32603, "internal error"), dial(t, srv).ask(asking(1, "tools/call", call("t", `{}`))))
	require.Empty(t, rec.find("handler.panic"))
	require.Contains(t, rec.find("handler.error")[0].attrs["error"], "has not asked for any")
}

// A question whose params have changed is asked again.
func TestChangedQuestion(t *testing.T) {
	eachWay(t, "", func(t *testing.T, ask asker) {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			var runs int
			if _, err := call.Kept(&runs); err != nil {
				return "", err
			}
			if err := call.Keep(runs + 1); err != nil {
				return "", err
			}
			r, err := call.Elicit("k", form(fmt.Sprintf("message %d", min(runs, 1)), anyForm))
			if err != nil {
				return "", err
			}
			return string(r.Content), nil
		})
		counts := map[string]int{}
		got := ask(t, srv, "tools/call", call("t", `{}`), counting(t, counts))
		require.Contains(t, got, `{\"v\":\"message 11\"}`)
		require.Equal(t, map[string]int{"message 0": 1, "message 1": 1}, counts)
	})
}

// Mistakes of the program.
func TestMistakesWithQuestions(t *testing.T) {
	const internal = `"code":-32603`
	for name, tt := range map[string]struct {
		ask  func(call *server.Call) error
		want string // of the answer
	}{
		"no question": {func(*server.Call) error { return mcp.ErrInputRequired }, internal},
		"no question in this run": {func(call *server.Call) error {
			_, err := call.Elicit("k", form("k", anyForm))
			if err == nil {
				return fmt.Errorf("again: %w", mcp.ErrInputRequired)
			}
			return err
		}, internal},
		"two questions under one key": {func(call *server.Call) error {
			_, _ = call.Elicit("k", form("one", anyForm))
			_, err := call.Elicit("k", form("two", anyForm))
			return err
		}, `two questions under the key \"k\"`},
		"no key":     {func(call *server.Call) error { _, err := call.Roots(""); return err }, "1 to 128 bytes"},
		"a long key": {func(call *server.Call) error { _, err := call.Roots(strings.Repeat("k", 129)); return err }, "1 to 128 bytes"},
		"nil":        {func(call *server.Call) error { _, err := call.Elicit("k", nil); return err }, "needs a message"},
		"no message": {func(call *server.Call) error { _, err := call.Elicit("k", &mcp.ElicitParams{}); return err }, "needs a message"},
		"a bad schema": {func(call *server.Call) error {
			_, err := call.Elicit("k", form("k", `"v":{"type":"object"}`))
			return err
		}, "field v"},
		"a mode": {func(call *server.Call) error {
			_, err := call.Elicit("k", &mcp.ElicitParams{Mode: "song", Message: "m"})
			return err
		}, `no elicitation mode`},
		"a form with a page": {func(call *server.Call) error {
			_, err := call.Elicit("k", &mcp.ElicitParams{Message: "m", URL: "https://x"})
			return err
		}, `a form has no URL`},
		"a page with a form": {func(call *server.Call) error {
			_, err := call.Elicit("k", &mcp.ElicitParams{Mode: mcp.ElicitURL, Message: "m", URL: "https://x", RequestedSchema: jsontext.Value(`{}`)})
			return err
		}, `a page has no schema`},
		"a page without an address": {func(call *server.Call) error {
			_, err := call.Elicit("k", &mcp.ElicitParams{Mode: mcp.ElicitURL, Message: "m", URL: "/x"})
			return err
		}, `absolute http or https URL`},
		"a page with a script": {func(call *server.Call) error {
			_, err := call.Elicit("k", &mcp.ElicitParams{Mode: mcp.ElicitURL, Message: "m", URL: "javascript://x/%0aalert(1)"})
			return err
		}, `absolute http or https URL`},
		"no tokens":           {func(call *server.Call) error { _, err := call.Sample("k", &mcp.CreateMessageParams{}); return err }, "needs messages"},
		"no params":           {func(call *server.Call) error { _, err := call.Sample("k", nil); return err }, "needs messages"},
		"what cannot be kept": {func(call *server.Call) error { return call.Keep(func() {}) }, "encode what is kept"},
		"what cannot be read": {func(call *server.Call) error {
			if err := call.Keep("text"); err != nil {
				return err
			}
			var n int
			_, err := call.Kept(&n)
			return err
		}, "decode what was kept"},
		"no form":  {func(call *server.Call) error { _, _, err := server.ElicitForm[int](call, "k", "m"); return err }, "a form is a struct"},
		"no words": {func(call *server.Call) error { _, _, err := server.ElicitForm[none](call, "k", ""); return err }, "needs a message"},
		"metadata": {func(call *server.Call) error { _, err := call.Sample("k", badMetadata()); return err }, "encode the params"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []mcp.Version{mcp.Version20260728, mcp.Version20251125} {
				srv := newServer(t, server.WithErrorDetails())
				server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) { return "", tt.ask(call) })
				p := dial(t, srv)
				request := asking
				if v != mcp.LatestVersion {
					request = legacy
					p.ask(legacy("init", "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
					p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				}
				got := p.ask(request(1, "tools/call", call("t", `{}`)))
				for strings.Contains(got, `"elicitation/create"`) {
					if v == mcp.LatestVersion {
						var f frame
						require.NoError(t, json.Unmarshal([]byte(got), &f))
						got = p.ask(asking(1, "tools/call", retryParams(t, call("t", `{}`), f.Result, func(servertest.Question) string { return accepted("x") })))
						continue
					}
					got = p.ask(`{"jsonrpc":"2.0","id":1,"result":` + accepted("x") + `}`)
				}
				require.Contains(t, got, tt.want, "%s", v)
			}
		})
	}
}

func badMetadata() *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser}}, Metadata: map[string]any{"f": func() {}}}
}

// The number of rounds is bounded, for a handler that always asks and for a client with invalid
// answers.
func TestRoundLimit(t *testing.T) {
	for _, v := range []mcp.Version{mcp.Version20260728, mcp.Version20251125} {
		t.Run(string(v), func(t *testing.T) {
			srv := newServer(t, server.WithLimits(server.Limits{MaxInputRounds: 3}))
			var runs atomic.Int32
			server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
				_, err := call.Elicit(fmt.Sprint("k", runs.Add(1)), form("k", anyForm))
				return "", err
			})
			asked := 0
			opts := []servertest.Option{servertest.Capabilities(allCapabilities()),
				servertest.OnInput(func(context.Context, servertest.Question) (any, error) {
					asked++
					return jsontext.Value(accepted("x")), nil
				})}
			if v != mcp.LatestVersion {
				opts = append(opts, servertest.Legacy(v))
			}
			_, err := servertest.Connect(t, srv, opts...).CallTool(t.Context(), "t", nil)
			rpc, ok := mcp.AsError(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, mcp.CodeInvalidParams, rpc.Code)
			require.Contains(t, rpc.Message, "3 times")
			require.Equal(t, map[string]any{"limit": "max_input_rounds"}, rpc.Data)
			require.Equal(t, 3, asked)
			require.EqualValues(t, 4, runs.Load())
		})
	}
}

// The size of the state is bounded.
func TestStateLimit(t *testing.T) {
	srv := newServer(t, server.WithLimits(server.Limits{MaxStateBytes: 2000}))
	server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, in struct {
		N int `json:"n"`
	}) (string, error) {
		if err := call.Keep(strings.Repeat("x", in.N)); err != nil {
			return "", err
		}
		_, err := call.Roots("k")
		return "", err
	})
	p := dial(t, srv)
	asked, _ := round(t, p, call("t", `{"n":900}`))
	require.NotEmpty(t, asked.RequestState)
	require.LessOrEqual(t, len(asked.RequestState), 2000)
	_, answer := round(t, p, call("t", `{"n":1500}`))
	require.Contains(t, answer, `"code":-32603`)
	require.Contains(t, answer, `"limit":"max_state_bytes"`)

	p.ask(legacy("init", "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacy(2, "tools/call", call("t", `{"n":1}`)))
	p.recv()
	answer = p.ask(`{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///` + strings.Repeat("x", 2000) + `"}]}}`)
	require.Contains(t, answer, `"code":-32602`, "it is the client that has answered too much")
	require.Contains(t, answer, `"limit":"max_state_bytes"`)
}

// A client with too large answers gets an error. Answers without a question do not count.
func TestStateLimitOfAnswers(t *testing.T) {
	srv := newServer(t, server.WithLimits(server.Limits{MaxStateBytes: 2000}))
	addTwo(srv)
	p := dial(t, srv)
	long := accepted(strings.Repeat("x", 1500))
	asked, _ := round(t, p, call("two", `{}`))
	_, answer := round(t, p, retry(call("two", `{}`), asked.RequestState, "one", long))
	require.Contains(t, answer, `"code":-32602`)
	require.Contains(t, answer, `"limit":"max_state_bytes"`)
	asked, _ = round(t, p, retry(call("two", `{}`), asked.RequestState, "nobody", long))
	require.Contains(t, asked.InputRequests, "one")
}

// The handler gets the error of a legacy client.
func TestClientRefuses(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		_, errA := call.Roots("a")
		_, errB := call.Sample("b", &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser}}})
		var a, b *mcp.ClientError
		if errors.As(errA, &a) && errors.As(errB, &b) {
			return fmt.Sprint(a.Code, a.Message, b.Code, b.Message), nil
		}
		return "", errors.Join(errA, errB)
	})
	client := servertest.Connect(t, srv, servertest.Legacy(mcp.Version20251125), servertest.Capabilities(allCapabilities()),
		servertest.OnInput(func(_ context.Context, q servertest.Question) (any, error) {
			if q.Method == mcp.MethodRootsList {
				return nil, mcp.NewError(-1, "no roots")
			}
			return nil, errors.New("no model")
		}))
	result, err := client.CallTool(t.Context(), "t", nil)
	require.NoError(t, err)
	require.Equal(t, "-1no roots-32603no model", result.Text())
}

// A client closes the connection between two rounds.
func TestClientDisappearsBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		ends := make(chan error, 1)
		server.AddTool(srv, server.Tool{Name: "t"}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
			if _, err := call.Elicit("one", form("one", anyForm)); err != nil {
				return "", err
			}
			time.Sleep(100 * time.Millisecond) // the client leaves
			_, err := call.Elicit("two", form("two", anyForm))
			if !errors.Is(err, mcp.ErrInputRequired) {
				ends <- err
			}
			return "", err
		})
		p := dial(t, srv)
		p.ask(legacy("init", "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacy(1, "tools/call", call("t", `{}`)))
		require.Contains(t, p.recv(), `"message":"one"`)
		p.send(`{"jsonrpc":"2.0","id":1,"result":` + accepted("1") + `}`)
		p.hangUp()
		require.ErrorIs(t, <-ends, mcp.ErrTransportClosed)
	})
}

// A call that waits for its user can be cancelled, and its deadline holds.
func TestCancelledWhileBlocked(t *testing.T) {
	start := func(t *testing.T, limits server.Limits) (*rawPipe, *atomic.Int32) {
		srv := newServer(t, server.WithLimits(limits))
		var runs atomic.Int32
		server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			runs.Add(1)
			_, err := call.Elicit("k", form("k", anyForm))
			return "done", err
		})
		p := dial(t, srv)
		p.ask(legacy("init", "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacy(7, "tools/call", call("t", `{}`)))
		require.Contains(t, p.recv(), `"elicitation/create"`)
		return p, &runs
	}
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, runs := start(t, server.Limits{})
			p.send(cancelled(7))
			require.Contains(t, p.recv(), "notifications/cancelled", "the client need not ask its user any more")
			p.silent()
			require.EqualValues(t, 1, runs.Load(), "nobody wants another run")
		})
	})
	t.Run("deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, runs := start(t, server.Limits{RequestTimeout: time.Second})
			got := p.recv() + p.recv()
			require.Contains(t, got, `"reason":"deadline"`)
			require.Contains(t, got, "notifications/cancelled")
			require.EqualValues(t, 1, runs.Load())
		})
	})
}

// A call that has ended sends no question.
func TestQuestionsAfterTheCall(t *testing.T) {
	for _, request := range []func(id any, method, params string) string{asking, legacy} {
		srv := newServer(t)
		late := make(chan *server.Call, 1)
		server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			late <- call
			return "done", nil
		})
		p := dial(t, srv)
		p.ask(legacy("init", "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		require.Contains(t, p.ask(request(1, "tools/call", call("t", `{}`))), `"done"`)
		_, err := (<-late).Roots("k")
		require.ErrorIs(t, err, mcp.ErrRequestDone)
	}
}

// Every goroutine of a handler gets an answer that is there already.
func TestManyGoroutinesAsk(t *testing.T) {
	eachWay(t, "in memory", func(t *testing.T, ask asker) {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			errs := make(chan error, 20)
			for n := range 20 {
				go func() {
					_, err := call.Elicit(fmt.Sprint("k", n%10), form(fmt.Sprint(n%10), anyForm))
					errs <- err
				}()
			}
			var all error
			for range 20 {
				all = errors.Join(all, <-errs)
			}
			return "done", all
		})
		counts := map[string]int{}
		require.Contains(t, ask(t, srv, "tools/call", call("t", `{}`), counting(t, counts)), `"done"`)
		require.Len(t, counts, 10)
		for message, n := range counts {
			require.Equal(t, 1, n, message)
		}
	})
}

// The next run of the handler gets the last value that was kept.
func TestKeep(t *testing.T) {
	eachWay(t, "", func(t *testing.T, ask asker) {
		srv := newServer(t)
		var seen []string
		server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			var kept map[string]int
			found, err := call.Kept(&kept)
			seen = append(seen, fmt.Sprint(found, kept, err))
			if err := errors.Join(call.Keep("draft"), call.Keep(map[string]int{"n": kept["n"] + 1})); err != nil {
				return "", err
			}
			if found, err := call.Kept(&kept); !found || err != nil {
				return "", fmt.Errorf("what is kept can be read at once: %w", err)
			}
			if _, err := call.Elicit("one", form("one", anyForm)); err != nil {
				return "", err
			}
			_, err = call.Elicit("two", form("two", anyForm))
			return "done", err
		})
		require.Contains(t, ask(t, srv, "tools/call", call("t", `{}`), counting(t, map[string]int{})), `"done"`)
		require.Equal(t, []string{"false map[] <nil>", "true map[n:1] <nil>", "true map[n:2] <nil>"}, seen)
	})
}

// A kept value replaces the one that came with the request, also if that was not read.
func TestKeepReplacesAValueThatWasNotRead(t *testing.T) {
	eachWay(t, "in memory", func(t *testing.T, ask asker) {
		srv := newServer(t)
		var runs int
		server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			runs++
			if err := call.Keep(runs); err != nil {
				return "", err
			}
			if _, err := call.Elicit("one", form("one", anyForm)); err != nil {
				return "", err
			}
			var kept int
			_, err := call.Kept(&kept)
			return fmt.Sprint("kept ", kept), err
		})
		require.Contains(t, ask(t, srv, "tools/call", call("t", `{}`), counting(t, map[string]int{})), `"kept 2"`)
	})
}
