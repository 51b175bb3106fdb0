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

// shake does the legacy handshake of a client that can be asked everything.
func (p *rawPipe) shake(version string) {
	p.t.Helper()
	require.Contains(p.t, p.ask(legacy("init", "initialize", `"protocolVersion":"`+version+`",`+initializeAll)), `"result"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func signInAt(id string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: mcp.ElicitURL, Message: "sign in", URL: "https://x.test/" + id, ElicitationID: id}
}

func pageParams(id string) string {
	return fmt.Sprintf(`{"mode":"url","message":"sign in","url":"https://x.test/%s","elicitationId":%q}`, id, id)
}

func complete(id string) string {
	return notification("notifications/elicitation/complete", fmt.Sprintf(`"elicitationId":%q`, id))
}

// addPage adds a tool that asks for a page and then does what the test wants.
func addPage(srv *server.Server, then func(ctx context.Context, id string)) {
	server.AddTool(srv, server.Tool{Name: "page"}, func(ctx context.Context, call *server.Call, in struct {
		ID string `json:"id"`
	}) (string, error) {
		r, err := call.Elicit("k", signInAt(in.ID))
		if err != nil {
			return "", err
		}
		then(ctx, in.ID)
		return string(r.Action), nil
	})
}

const consent = `{"action":"accept"}`

// Who was asked to open a page is told when the user is done there: on the stream of
// the request, or later on that of the session.
func TestElicitationComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		early := true
		addPage(srv, func(ctx context.Context, id string) {
			if early {
				require.NoError(t, srv.ElicitationComplete(ctx, id))
			}
		})
		server.AddTool(srv, server.Tool{Name: "form"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			_, err := call.Elicit("k", &mcp.ElicitParams{Message: "m", ElicitationID: "form"})
			return "", err
		})
		p := dial(t, srv)
		p.shake("2025-11-25")
		other := dial(t, srv)
		other.shake("2025-11-25")
		ask := func(p *rawPipe, id string) {
			t.Helper()
			var asked frame
			require.NoError(t, json.Unmarshal([]byte(p.ask(legacy(1, "tools/call", call("page", `{"id":"`+id+`"}`)))), &asked))
			require.JSONEq(t, pageParams(id), string(asked.Params))
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, consent))
		}
		told := func(id string) { require.NoError(t, srv.ElicitationComplete(t.Context(), id)) }
		done := result(1, `"content":[{"type":"text","text":"accept"}]`)

		ask(p, "a")
		require.JSONEq(t, complete("a"), p.recv(), "before the answer")
		require.JSONEq(t, done, p.recv())
		early = false
		ask(p, "b")
		require.JSONEq(t, done, p.recv())
		for range 2 {
			told("a") // was told
			told("nobody")
		}
		p.silent()
		told("b")
		require.JSONEq(t, complete("b"), p.recv())
		told("b")
		p.silent()

		// A form is no page, whatever its author calls it.
		require.NotContains(t, p.ask(legacy("form", "tools/call", call("form", `{}`))), "elicitationId")
		told("form")
		p.silent()

		// Two that were asked under one id are both told, and who has gone is not missed.
		ask(p, "c")
		ask(other, "c")
		require.JSONEq(t, done, p.recv())
		require.JSONEq(t, done, other.recv())
		told("c")
		require.JSONEq(t, complete("c"), p.recv())
		require.JSONEq(t, complete("c"), other.recv())
		ask(other, "d")
		require.JSONEq(t, done, other.recv())
		require.NoError(t, other.hangUp())
		synctest.Wait()
		told("d")
		p.silent()
	})
}

// Modern clients, and those before 2025-11-25, hear nothing of it.
func TestElicitationCompleteOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		addPage(srv, func(ctx context.Context, id string) { require.NoError(t, srv.ElicitationComplete(ctx, id)) })
		p := dial(t, srv)
		params := call("page", `{"id":"a"}`)
		var asked frame
		require.NoError(t, json.Unmarshal([]byte(p.ask(asking(1, "tools/call", params))), &asked))
		again := retryParams(t, params, asked.Result, func(q servertest.Question) string {
			require.JSONEq(t, `{"mode":"url","message":"sign in","url":"https://x.test/a"}`, string(q.Params))
			return consent
		})
		require.Contains(t, p.ask(asking(2, "tools/call", again)), `"accept"`)
		require.NoError(t, srv.ElicitationComplete(t.Context(), "a"))
		p.silent()

		server.AddTool(srv, server.Tool{Name: "raw"}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
			_, err := call.CallClient(ctx, mcp.MethodElicitationCreate, signInAt("raw"))
			return "asked", err
		})
		for version, tells := range map[string]bool{"2025-06-18": false, "2025-11-25": true} {
			p := dial(t, srv)
			p.shake(version)
			p.send(legacy(1, "tools/call", call("raw", `{}`)))
			require.Contains(t, p.recv(), `"elicitationId":"raw"`)
			p.send(`{"jsonrpc":"2.0","id":1,"result":` + consent + `}`)
			require.Contains(t, p.recv(), `"asked"`)
			require.NoError(t, srv.ElicitationComplete(t.Context(), "raw"))
			if tells {
				require.JSONEq(t, complete("raw"), p.recv())
			}
			p.silent()
		}
	})
}

// Over HTTP a client may have no stream on which it can be told, and open one later.
func TestElicitationCompleteOverHTTP(t *testing.T) {
	srv := newServer(t)
	early := true
	addPage(srv, func(ctx context.Context, id string) {
		if early {
			require.NoError(t, srv.ElicitationComplete(ctx, id))
		}
	})
	url := listen(t, srv)
	res, _ := exchange(t, "POST", url, legacy(1, "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
	sid := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, sid)
	ask := func(id string) *eventStream {
		s := openStream(t, "POST", url, legacy(1, "tools/call", call("page", `{"id":"`+id+`"}`)), sid)
		var asked frame
		require.NoError(t, json.Unmarshal([]byte(s.next()), &asked))
		exchange(t, "POST", url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, consent), sid)
		return s
	}
	s := ask("a")
	require.JSONEq(t, complete("a"), s.next())
	require.Contains(t, s.next(), `"accept"`)
	early = false
	s = ask("b")
	require.Contains(t, s.next(), `"accept"`)
	require.ErrorIs(t, srv.ElicitationComplete(t.Context(), "b"), mcp.ErrPeerGone)
	own := openStream(t, "GET", url, "", sid)
	require.NoError(t, srv.ElicitationComplete(t.Context(), "b"), "it is not forgotten before it is told")
	require.JSONEq(t, complete("b"), own.next())
	conserved(t, srv)
}

// A client that takes no event stream for its answer is told on the session's own.
func TestElicitationCompleteOfAPlainRequest(t *testing.T) {
	srv := newServer(t)
	done := make(chan error, 1)
	addPage(srv, func(ctx context.Context, id string) { done <- srv.ElicitationComplete(ctx, id) })
	url := listen(t, srv)
	sid := begin2025(t, url)
	own := openStream(t, "GET", url, "", sid)
	answered := make(chan string, 1)
	go func() {
		_, body := exchange(t, "POST", url, legacy(1, "tools/call", call("page", `{"id":"a"}`)), sid, "Accept: application/json")
		answered <- body
	}()
	var asked frame
	require.NoError(t, json.Unmarshal([]byte(own.next()), &asked))
	exchange(t, "POST", url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, consent), sid)
	require.NoError(t, <-done)
	require.JSONEq(t, complete("a"), own.next())
	require.Contains(t, <-answered, `"result"`)
}

func begin2025(t *testing.T, url string) (session string) {
	t.Helper()
	res, _ := exchange(t, "POST", url, legacy(1, "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
	session = "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session)
	return session
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

// A session remembers so many pages, and the oldest is forgotten first.
func TestManyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "pages"}, func(_ context.Context, _ *server.Call, _ none) (string, error) {
			data := mcp.URLElicitationRequiredData{}
			for i := range 65 {
				data.Elicitations = append(data.Elicitations, *signInAt(fmt.Sprint(i)))
			}
			return "", mcp.NewError(mcp.CodeURLElicitationRequired, "open them").WithData(data)
		})
		p := dial(t, srv)
		p.shake("2025-11-25")
		require.Contains(t, p.ask(legacy(1, "tools/call", call("pages", `{}`))), `-32042`)
		require.NoError(t, srv.ElicitationComplete(t.Context(), "0"))
		p.silent()
		for i := 1; i < 65; i++ {
			require.NoError(t, srv.ElicitationComplete(t.Context(), fmt.Sprint(i)))
			require.JSONEq(t, complete(fmt.Sprint(i)), p.recv())
		}
	})
}

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

// An error that asks for pages and does not say which, or cannot be put as a question, is
// the server's fault, and its author is told.
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

// Where no question can be put, the error is an internal one for modern clients.
func TestURLElicitationRequiredElsewhere(t *testing.T) {
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
