package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// addTwo adds a tool that asks two questions, one after the other.
func addTwo(srv *server.Server, names ...string) {
	for _, name := range append(names, "two") {
		server.AddTool(srv, server.Tool{Name: name}, func(_ context.Context, call *server.Call, in map[string]any) (string, error) {
			one, err := call.Elicit("one", form("one", `"v":{"type":"string"}`))
			if err != nil {
				return "", err
			}
			two, err := call.Elicit("two", form("two", `"v":{"type":"string"}`))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %s %v", one.Content, two.Content, in), nil
		})
	}
}

// round sends one modern request and returns what it asks, or its answer as text.
func round(t *testing.T, p *rawPipe, params string) (asked roundsResult, answer string) {
	t.Helper()
	answer = p.ask(asking(1, "tools/call", params))
	var f frame
	require.NoError(t, json.Unmarshal([]byte(answer), &f))
	if f.Error == nil {
		require.NoError(t, json.Unmarshal(f.Result, &asked))
	}
	return asked, answer
}

// retry is the params of a request that is made again.
func retry(params, state string, answers ...string) string {
	members := make([]string, 0, len(answers)/2)
	for i := 0; i < len(answers); i += 2 {
		members = append(members, fmt.Sprintf("%q:%s", answers[i], answers[i+1]))
	}
	return fmt.Sprintf(`%s,"requestState":%q,"inputResponses":{%s}`, params, state, strings.Join(members, ","))
}

// refusedState checks that an answer is the error for a bad state.
func refusedState(t *testing.T, reason mcp.StateFault, answer string) {
	t.Helper()
	var f frame
	require.NoError(t, json.Unmarshal([]byte(answer), &f))
	require.NotNil(t, f.Error, answer)
	require.Equal(t, -32602, f.Error.Code, answer)
	require.Contains(t, string(f.Error.Data), `"reason":"`+string(reason)+`"`)
	require.Contains(t, f.Error.Message, "params.requestState")
}

// The result with questions on the wire.
func TestInputRequiredResult(t *testing.T) {
	srv := newServer(t)
	addTwo(srv)
	p := dial(t, srv)
	asked, answer := round(t, p, call("two", `{}`))
	require.JSONEq(t, result(1, `"resultType":"input_required","requestState":"`+asked.RequestState+`","inputRequests":{"one":{
		"method":"elicitation/create","params":{"message":"one","requestedSchema":{"type":"object","properties":{"v":{"type":"string"}},"required":["v"]}}}},
		"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}`), answer)
	require.NotContains(t, asked.RequestState, "one", "it is sealed")

	again, _ := round(t, p, retry(call("two", `{}`), asked.RequestState, "one", accepted("1")))
	require.Contains(t, again.InputRequests, "two")
	require.Len(t, again.InputRequests, 1)
	require.NotEqual(t, asked.RequestState, again.RequestState)
	_, answer = round(t, p, retry(call("two", `{}`), again.RequestState, "two", accepted("2")))
	require.Contains(t, answer, `{\"v\":\"1\"} {\"v\":\"2\"}`, "the first answer was in the state")
}

// A state of another request is rejected.
func TestStatesOfOthers(t *testing.T) {
	srv := newServer(t, byContext)
	addTwo(srv, "other")
	p := dial(t, srv)
	base := call("two", `{"a":1}`)
	asked, _ := round(t, p, base)
	state := asked.RequestState
	for name, tt := range map[string]struct {
		params string
		want   mcp.StateFault
	}{
		"changed":         {retry(base, state+"-TAMPERED"), ""},
		"another letter":  {retry(base, state[:40]+flip(state[40])+state[41:]), mcp.StateChanged},
		"empty":           {retry(base, ""), mcp.StateMalformed},
		"no state at all": {retry(base, "hello"), mcp.StateMalformed},
		"other arguments": {retry(call("two", `{"a":2}`), state), mcp.StateArguments},
		"another tool":    {retry(call("other", `{"a":1}`), state), mcp.StateTarget},
		"too long":        {retry(base, strings.Repeat("A", 256<<10+1)), mcp.StateTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, answer := round(t, p, tt.params)
			if tt.want == "" {
				require.Contains(t, answer, `"code":-32602`)
				return
			}
			refusedState(t, tt.want, answer)
		})
	}
	t.Run("somebody else", func(t *testing.T) {
		bob := dialContext(t, as("bob"), srv)
		refusedState(t, mcp.StateMalformed, bob.ask(asking(1, "tools/call", retry(base, state))))
	})
	t.Run("itself", func(t *testing.T) {
		asked, _ := round(t, p, retry(base, state, "one", accepted("1")))
		require.Contains(t, asked.InputRequests, "two")
	})
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func TestRequestStateMustBeAString(t *testing.T) {
	srv := newServer(t)
	addTwo(srv)
	p := dial(t, srv)
	for _, members := range []string{`"requestState":7`, `"inputResponses":7`, `"inputResponses":[]`, `"requestState":{}`} {
		_, answer := round(t, p, call("two", `{}`)+","+members)
		require.JSONEq(t, failure(1, -32602, "params.inputResponses must be an object and params.requestState a string"), answer)
	}
	for _, members := range []string{`"inputResponses":null`, `"requestState":null`, `"inputResponses":{"wrong":{"action":"accept"}}`} {
		asked, _ := round(t, p, call("two", `{}`)+","+members)
		require.Contains(t, asked.InputRequests, "one", members)
	}
}

// A request with a bad state gets the error, also if its handler succeeds.
func TestHandlerCannotHideABadState(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "swallow"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		_, _ = call.Roots("r")
		return "done", nil
	})
	_, answer := round(t, dial(t, srv), retry(call("swallow", `{}`), "AQ"))
	refusedState(t, mcp.StateMalformed, answer)
}

// The state of a call that asks nothing is not read.
func TestStateIsReadWhenItIsNeeded(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "plain"}, text("done"))
	_, answer := round(t, dial(t, srv), retry(call("plain", `{}`), "AQ"))
	require.Contains(t, answer, `"done"`)
}

func TestStateExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithLimits(server.Limits{StateTTL: time.Hour}))
		addTwo(srv)
		p := dial(t, srv)
		asked, _ := round(t, p, call("two", `{}`))
		time.Sleep(time.Hour - time.Second)
		again, answer := round(t, p, retry(call("two", `{}`), asked.RequestState, "one", accepted("1")))
		require.Contains(t, again.InputRequests, "two", answer)
		time.Sleep(time.Second)
		_, answer = round(t, p, retry(call("two", `{}`), asked.RequestState, "one", accepted("1")))
		refusedState(t, mcp.StateExpired, answer)
		_, answer = round(t, p, retry(call("two", `{}`), again.RequestState, "two", accepted("2")))
		require.Contains(t, answer, `"content"`, "each round has its own time")
	})
}

// Replicas with the same keys continue each other's requests, also during a rotation of keys.
func TestReplicas(t *testing.T) {
	key := stateKey
	start := func(keys ...[]byte) *rawPipe {
		srv := newServer(t, server.WithStateKeys(keys...))
		addTwo(srv)
		return dial(t, srv)
	}
	a, b := start(key(1)), start(key(2), key(1))
	asked, _ := round(t, a, call("two", `{}`))
	asked, _ = round(t, b, retry(call("two", `{}`), asked.RequestState, "one", accepted("1")))
	require.Contains(t, asked.InputRequests, "two")
	_, answer := round(t, a, retry(call("two", `{}`), asked.RequestState, "two", accepted("2")))
	refusedState(t, mcp.StateForeign, answer) // sealed with the new key, which a does not have yet
	_, answer = round(t, start(key(3), key(2)), retry(call("two", `{}`), asked.RequestState, "two", accepted("2")))
	require.Contains(t, answer, `{\"v\":\"1\"} {\"v\":\"2\"}`)

	_, answer = round(t, start(), retry(call("two", `{}`), asked.RequestState, "two", accepted("2")))
	refusedState(t, mcp.StateForeign, answer)
}

func TestStateKeys(t *testing.T) {
	_, err := server.TryNew("s", "1", server.WithStateKeys([]byte("short")))
	require.EqualError(t, err, "server: state key 1 has 5 bytes and needs 32")
	srv := newServer(t)
	require.Error(t, srv.SetStateKeys())
	require.Error(t, srv.SetStateKeys(make([]byte, 31)))
	require.ErrorContains(t, srv.SetStateKeys(make([]byte, 100)), "state key 1 has the same byte everywhere")
	require.ErrorContains(t, srv.SetStateKeys(stateKey(1), bytes.Repeat([]byte("x"), 32)), "state key 2 has the same byte everywhere")
	require.NoError(t, srv.SetStateKeys(append(make([]byte, 99), 1)))
}

// A client that knows the keys of the questions cannot consent before its user was asked.
func TestAnswersWithoutStateAreIgnored(t *testing.T) {
	paid := 0
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "pay"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		if _, err := call.Elicit("consent", form("Pay?", `"v":{"type":"string"}`)); err != nil {
			return "", err
		}
		paid++
		return "paid", nil
	})
	p := dial(t, srv)
	asked, answer := round(t, p, call("pay", `{}`)+`,"inputResponses":{"consent":`+accepted("yes")+`}`)
	require.Contains(t, asked.InputRequests, "consent", answer)
	require.Zero(t, paid)
	_, answer = round(t, p, retry(call("pay", `{}`), asked.RequestState, "consent", accepted("yes")))
	require.Contains(t, answer, `"paid"`)
	require.Equal(t, 1, paid)
}

// A server may take answers that come before the question, if they fit it.
func TestUnaskedAnswersAreTakenByOption(t *testing.T) {
	srv := newServer(t, server.WithUnaskedAnswers())
	addTwo(srv)
	p := dial(t, srv)
	_, answer := round(t, p, call("two", `{}`)+`,"inputResponses":{"one":`+accepted("1")+`,"two":`+accepted("2")+`,"three":7}`)
	require.Contains(t, answer, `{\"v\":\"1\"} {\"v\":\"2\"}`)
	asked, _ := round(t, p, call("two", `{}`)+`,"inputResponses":{"one":12345}`)
	require.Contains(t, asked.InputRequests, "one")
}

// Of the requests with one state one is served, also if they come at the same time. A state of
// another process, such as one before a restart, is not served at all.
func TestSingleUseStates(t *testing.T) {
	start := func(opts ...server.Option) *rawPipe {
		srv := newServer(t, append(opts, server.WithStateKeys(stateKey(1)))...)
		addTwo(srv)
		return dial(t, srv)
	}
	p := start(server.WithSingleUseStates())
	asked, _ := round(t, p, call("two", `{}`))
	first := retry(call("two", `{}`), asked.RequestState, "one", accepted("1"))
	again, _ := round(t, p, first)
	require.Contains(t, again.InputRequests, "two")
	_, answer := round(t, p, first)
	refusedState(t, mcp.StateUsed, answer)
	_, answer = round(t, p, retry(call("two", `{}`), again.RequestState, "two", accepted("2")))
	require.Contains(t, answer, `{\"v\":\"1\"} {\"v\":\"2\"}`, "the state of the next round is another one")

	restarted := start(server.WithSingleUseStates())
	_, answer = round(t, restarted, first)
	refusedState(t, mcp.StateUsed, answer)
	_, answer = round(t, start(), first)
	require.Contains(t, answer, "input_required", "a server without the option takes it")
	asked, _ = round(t, start(), call("two", `{}`))
	_, answer = round(t, restarted, retry(call("two", `{}`), asked.RequestState, "one", accepted("1")))
	refusedState(t, mcp.StateUsed, answer) // it was issued without the option

	asked, _ = round(t, p, call("two", `{}`))
	_, answer = round(t, p, retry(call("two", `{"other":1}`), asked.RequestState, "one", accepted("1")))
	refusedState(t, mcp.StateArguments, answer)
	again, _ = round(t, p, retry(call("two", `{}`), asked.RequestState, "one", accepted("1")))
	require.Contains(t, again.InputRequests, "two", "a request that was refused for another reason has not used it")
}

// stateKey returns a key that is not weak.
func stateKey(b byte) []byte { return append(bytes.Repeat([]byte{b}, 31), ^b) }

// With a state, answers without a question are ignored.
func TestUnknownAnswersAreIgnored(t *testing.T) {
	srv := newServer(t)
	addTwo(srv)
	p := dial(t, srv)
	asked, _ := round(t, p, call("two", `{}`))
	asked, _ = round(t, p, retry(call("two", `{}`), asked.RequestState, "one", accepted("1"), "two", accepted("early"), "zzz", "7"))
	require.Contains(t, asked.InputRequests, "two")
	asked, _ = round(t, p, retry(call("two", `{}`), asked.RequestState, "one", accepted("late")))
	require.Contains(t, asked.InputRequests, "two", "missing: asked again")
	_, answer := round(t, p, retry(call("two", `{}`), asked.RequestState, "two", accepted("2")))
	require.Contains(t, answer, `{\"v\":\"1\"} {\"v\":\"2\"}`, "an answer that was given stays")
}

// An answer is kept until the handler asks the question.
func TestAnswersAreKeptUntilTheQuestion(t *testing.T) {
	eachWay(t, "", func(t *testing.T, ask asker) {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			a, errA := call.Elicit("a", form("a", `"v":{"type":"string"}`))
			if errA == nil {
				if _, err := call.Elicit("c", form("c", `"v":{"type":"string"}`)); err != nil {
					return "", err
				}
			}
			b, errB := call.Elicit("b", form("b", `"v":{"type":"string"}`))
			if errA != nil || errB != nil {
				return "", fmt.Errorf("%w, %w", errA, errB)
			}
			return string(a.Content) + string(b.Content), nil
		})
		counts := map[string]int{}
		got := ask(t, srv, "tools/call", call("t", `{}`), counting(t, counts))
		require.Contains(t, got, `{\"v\":\"a1\"}{\"v\":\"b1\"}`)
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, counts)
	})
}
