package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// signIn is the error of a handler that wants its user to open pages first.
func signIn(data any) error {
	return mcp.NewError(mcp.CodeURLElicitationRequired, "sign in first").WithData(data)
}

func signInPage(id string) mcp.URLElicitationRequiredData {
	return mcp.URLElicitationRequiredData{Elicitations: []mcp.ElicitParams{*signInAt(id)}}
}

// addSignIn adds a tool that wants a page as long as the test says so.
func addSignIn(srv *server.Server, wants func() (data any, ok bool)) {
	server.AddTool(srv, server.Tool{Name: "t"}, func(context.Context, *server.Call, none) (string, error) {
		if data, ok := wants(); ok {
			return "", fmt.Errorf("wrapped: %w", signIn(data))
		}
		return "signed in", nil
	})
}

// A client of 2025-11-25 gets an id for each page, and only if it can open pages.
func TestURLElicitationRequiredOfTheRevision(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "t"}, func(context.Context, *server.Call, none) (string, error) {
		return "", signIn(signInPage(""))
	})
	p := dial(t, srv)
	p.shake("2025-11-25")
	require.Regexp(t, `"code":-32042,.*"elicitationId":"[A-Z2-7]{26}"`, p.ask(legacy(1, "tools/call", call("t", `{}`))))
	p = dial(t, srv)
	p.ask(legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}`))
	answer := p.ask(legacy(2, "tools/call", call("t", `{}`)))
	require.NotContains(t, answer, "-32042")
	require.Contains(t, answer, "elicitation.url")
}

func TestURLElicitationRequired(t *testing.T) {
	const key = "urlElicitationRequired/0"
	run := call("t", `{}`)
	opened := func(n int) func() (any, bool) { // after n runs
		return func() (any, bool) { n--; return signInPage("a"), n >= 0 }
	}
	t.Run("2025-11-25", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t)
			addSignIn(srv, opened(1))
			p := dial(t, srv)
			p.shake("2025-11-25")
			require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"sign in first","data":{"elicitations":[`+
				pageParams("a")+`]}}}`, p.ask(legacy(1, "tools/call", run)))
			require.NoError(t, srv.ElicitationComplete(t.Context(), "a"))
			require.JSONEq(t, complete("a"), p.recv())
			require.Contains(t, p.ask(legacy(2, "tools/call", run)), `"signed in"`)
		})
	})
	// modern makes a modern request and its retries, and returns the last answer.
	modern := func(t *testing.T, srv *server.Server, says ...string) frame {
		p := dial(t, srv)
		for again := run; ; says = says[1:] {
			var answer frame
			require.NoError(t, json.Unmarshal([]byte(p.ask(asking(1, "tools/call", again))), &answer))
			if len(says) == 0 {
				return answer
			}
			require.Nil(t, answer.Error)
			again = retryParams(t, run, answer.Result, func(q servertest.Question) string {
				require.Equal(t, key, q.Key)
				require.Equal(t, mcp.MethodElicitationCreate, q.Method)
				require.JSONEq(t, `{"mode":"url","message":"sign in","url":"https://x.test/a"}`, string(q.Params))
				return says[0]
			})
			require.NotEmpty(t, again, "%s", answer.Result)
		}
	}
	for name, tt := range map[string]struct {
		runs    int // that want the page
		says    []string
		want    string // of the last result
		refused bool
	}{
		"modern":                          {runs: 1, says: []string{consent}, want: `"signed in"`},
		"modern, asks":                    {runs: 1, want: `"input_required"`},
		"modern, not yet":                 {runs: 3, says: []string{consent, `{}`, consent}, want: `"signed in"`},
		"modern, decline":                 {runs: 9, says: []string{consent, `{"action":"decline"}`}, refused: true},
		"modern, cancel":                  {runs: 9, says: []string{`{"action":"cancel"}`}, refused: true},
		"modern, declined but not needed": {runs: 1, says: []string{`{"action":"decline"}`}, want: `"signed in"`},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			addSignIn(srv, opened(tt.runs))
			answer := modern(t, srv, tt.says...)
			if tt.refused {
				require.NotNil(t, answer.Error)
				require.Equal(t, -32600, answer.Error.Code)
				require.Equal(t, "sign in first: the user has refused", answer.Error.Message)
				return
			}
			require.Nil(t, answer.Error)
			require.Contains(t, string(answer.Result), tt.want)
		})
	}
	t.Run("modern, for ever", func(t *testing.T) {
		srv := newServer(t, server.WithLimits(server.Limits{MaxInputRounds: 2}))
		addSignIn(srv, opened(9))
		answer := modern(t, srv, consent, consent)
		require.NotNil(t, answer.Error)
		require.Equal(t, -32602, answer.Error.Code)
		require.Contains(t, string(answer.Error.Data), "max_input_rounds")
	})
	t.Run("modern, a state that is none", func(t *testing.T) {
		srv := newServer(t)
		addSignIn(srv, opened(9))
		require.Contains(t, dial(t, srv).ask(asking(1, "tools/call", run+`,"requestState":"mine"`)), `-32602`)
	})
	t.Run("not declared", func(t *testing.T) {
		srv := newServer(t)
		addSignIn(srv, opened(9))
		server.AddPrompt(srv, server.Prompt{Name: "t"}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return nil, signIn(signInPage("a"))
		})
		const required = `"data":{"requiredCapabilities":{"elicitation":{"url":{}}}}`
		p := dial(t, srv)
		got := p.ask(withCaps(1, "tools/call", `"elicitation":{}`, run))
		require.Contains(t, got, `-32021`)
		require.Contains(t, got, required)
		p.shake("2025-06-18")
		require.Contains(t, p.ask(legacy(1, "tools/call", run)), `"isError":true`)
		got = p.ask(legacy(2, "prompts/get", `"name":"t"`))
		require.Contains(t, got, `-32600`)
		require.Contains(t, got, required)
	})
}

// An error that asks for pages, and has no valid pages or cannot become a question, is the
// server's fault, and the log says so.
func TestBadURLElicitationRequired(t *testing.T) {
	bad := func(change func(p *mcp.ElicitParams)) any {
		data := signInPage("a")
		change(&data.Elicitations[0])
		return data
	}
	for name, tt := range map[string]struct {
		data any
		want string
	}{
		"no data":     {nil, "no elicitation in it"},
		"nothing":     {mcp.URLElicitationRequiredData{}, "no elicitation in it"},
		"no list":     {map[string]any{"elicitations": 7}, "json:"},
		"no object":   {7, "json:"},
		"not encoded": {func() {}, "json:"},
		"a form":      {bad(func(p *mcp.ElicitParams) { p.Mode, p.URL = mcp.ElicitForm, "" }), "must be of mode url"},
		"no mode":     {bad(func(p *mcp.ElicitParams) { p.Mode = "" }), "must be of mode url"},
		"no address":  {bad(func(p *mcp.ElicitParams) { p.URL = "/x" }), "absolute http or https URL"},
		"no message":  {bad(func(p *mcp.ElicitParams) { p.Message = "" }), "needs a message"},
	} {
		t.Run(name, func(t *testing.T) {
			logs := &logRecorder{}
			srv := newServer(t, server.WithLogger(slog.New(logs)))
			addSignIn(srv, func() (any, bool) { return tt.data, true })
			p := dial(t, srv)
			require.JSONEq(t, failure(1, -32603, "internal error"), p.ask(asking(1, "tools/call", call("t", `{}`))))
			require.Len(t, logs.find("handler.error"), 1)
			require.Contains(t, logs.find("handler.error")[0].attrs["error"], "sign in first")
			require.Contains(t, logs.find("handler.error")[0].attrs["error"], tt.want)
			p.shake("2025-06-18")
			require.JSONEq(t, failure(2, -32603, "internal error"), p.ask(legacy(2, "tools/call", call("t", `{}`))))
			p = dial(t, srv)
			p.shake("2025-11-25")
			require.JSONEq(t, failure(1, -32603, "internal error"), p.ask(legacy(1, "tools/call", call("t", `{}`))))
		})
	}
}

// A modern client whose request cannot ask gets an internal error.
func TestURLElicitationRequiredWithoutAQuestion(t *testing.T) {
	logged := func(t *testing.T, logs *logRecorder, want string) {
		t.Helper()
		require.Len(t, logs.find("handler.error"), 1)
		require.Contains(t, logs.find("handler.error")[0].attrs["error"], want)
	}
	t.Run("completion", func(t *testing.T) {
		logs := &logRecorder{}
		srv := newServer(t, server.WithLogger(slog.New(logs)))
		server.AddPrompt(srv, server.Prompt{Name: "p", Arguments: []server.PromptArgument{{
			Name: "a", Complete: func(context.Context, *server.Call, string, map[string]string) ([]string, error) {
				return nil, signIn(signInPage("a"))
			},
		}}}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil })
		const params = `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`
		require.JSONEq(t, failure(1, -32603, "internal error"), dial(t, srv).ask(asking(1, "completion/complete", params)))
		logged(t, logs, mcp.ErrNoBackChannel.Error())
	})
	t.Run("middleware", func(t *testing.T) {
		logs := &logRecorder{}
		srv := newServer(t, server.WithLogger(slog.New(logs)), server.WithMiddleware(
			func(next middleware.Handler) middleware.Handler {
				return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
					if req.Method == mcp.MethodToolsCall {
						return nil, signIn(signInPage("a"))
					}
					return next(ctx, req)
				}
			}))
		server.AddTool(srv, server.Tool{Name: "t"}, text("hello"))
		require.JSONEq(t, failure(1, -32603, "internal error"), dial(t, srv).ask(asking(1, "tools/call", call("t", `{}`))))
		logged(t, logs, "has gone out of use")

		old, last := dial(t, srv), dial(t, srv)
		old.ask(legacy(1, "initialize", `"protocolVersion":"2025-06-18",`+initializeAll))
		require.JSONEq(t, failure(2, -32603, "internal error"), old.ask(legacy(2, "tools/call", call("t", `{}`))))
		last.ask(legacy(1, "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
		require.Contains(t, last.ask(legacy(2, "tools/call", call("t", `{}`))), `"code":-32042`)
	})
	t.Run("task", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			logs := &logRecorder{}
			srv := newTaskServer(t, server.WithLogger(slog.New(logs)))
			server.AddTool(srv, server.Tool{Name: "t", Task: server.TaskOptional}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
				_, err := call.Detach(ctx, server.TaskOptions{})
				require.NoError(t, err)
				return "", signIn(signInPage("a"))
			})
			task, err := connectTasks(t, srv).StartTask(t.Context(), "t", nil)
			require.NoError(t, err)
			synctest.Wait()
			state, err := task.Get(t.Context())
			require.NoError(t, err)
			require.Equal(t, mcp.TaskFailed, state.Status)
			require.Equal(t, mcp.CodeInternalError, state.Error.Code)
			logged(t, logs, "has gone out of use")
		})
	})
}
