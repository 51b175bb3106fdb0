package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

type ageForm struct {
	Age int `json:"age"`
}

// addAge adds a tool that asks for the user's age.
func addAge(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "age"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		form, action, err := server.ElicitForm[ageForm](call, "age", "how old are you?")
		return fmt.Sprint(action, form.Age), err
	})
}

// age is the answer of a user who fills in the form, with the JSON of the age.
func age(json string) string { return `{"action":"accept","content":{"age":` + json + `}}` }

const textAge = "content: /age: must be an integer, got string"

// callAsked calls a tool as a client of a revision that gives the same answer to each question. It returns the error and how often
// the client was asked.
func callAsked(t *testing.T, srv *server.Server, v mcp.Version, tool, answer string) (rpc *mcp.Error, asked int) {
	opts := []servertest.Option{servertest.Capabilities(allCapabilities()),
		servertest.OnInput(func(context.Context, servertest.Question) (any, error) {
			asked++
			return jsontext.Value(answer), nil
		})}
	if v != mcp.LatestVersion {
		opts = append(opts, servertest.Legacy(v))
	}
	_, err := servertest.Connect(t, srv, opts...).CallTool(t.Context(), tool, nil)
	rpc, ok := mcp.AsError(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, mcp.CodeInvalidParams, rpc.Code)
	return rpc, asked
}

// A client that answers wrongly again and again is told what is wrong, and so is the operator.
func TestMalformedAnswersEndTheRequest(t *testing.T) {
	for _, v := range []mcp.Version{mcp.Version20260728, mcp.Version20251125} {
		t.Run(string(v), func(t *testing.T) {
			var log logRecorder
			srv := newServer(t, server.WithLogger(slog.New(&log)))
			addAge(srv)
			rpc, asked := callAsked(t, srv, v, "age", age(`"4711-secret"`))
			require.Equal(t, `3 answers to the question "age" were malformed, one after the other; of the last one: `+textAge, rpc.Message)
			require.Equal(t, 3, asked)
			records := log.find("answer.malformed")
			require.Len(t, records, 3)
			for i, r := range records {
				require.Equal(t, slog.LevelInfo, r.level)
				require.Equal(t, "age", r.attrs["target"])
				require.Equal(t, "age", r.attrs["question"])
				require.Equal(t, textAge, r.attrs["fault"])
				require.Equal(t, fmt.Sprint(i+1), r.attrs["in_a_row"])
				require.NotContains(t, fmt.Sprint(r.attrs), "4711")
			}
		})
	}
}

// The last round that max_input_rounds allows brings a malformed answer.
func TestRoundLimitNamesTheFault(t *testing.T) {
	for _, v := range []mcp.Version{mcp.Version20260728, mcp.Version20251125} {
		srv := newServer(t, server.WithLimits(server.Limits{MaxInputRounds: 2}))
		addAge(srv)
		rpc, asked := callAsked(t, srv, v, "age", age(`"42"`))
		require.Equal(t, "the request has asked for input 2 times, which is all that max_input_rounds allows; "+
			`the last answer to the question "age" is malformed: `+textAge, rpc.Message)
		require.Equal(t, map[string]any{"limit": "max_input_rounds"}, rpc.Data)
		require.Equal(t, 2, asked)
	}
}

// Only malformed answers to the same question that follow each other count together.
func TestMalformedAnswersInARow(t *testing.T) {
	t.Run("a good answer in time", func(t *testing.T) {
		eachWay(t, "", func(t *testing.T, ask asker) {
			srv := newServer(t)
			addAge(srv)
			answers := 0
			got := ask(t, srv, "tools/call", call("age", `{}`), func(servertest.Question) string {
				if answers++; answers < 3 {
					return age(`"42"`)
				}
				return age(`42`)
			})
			require.Contains(t, got, `accept42`)
		})
	})
	t.Run("another question under the same key", func(t *testing.T) {
		eachWay(t, "", func(t *testing.T, ask asker) {
			srv := newServer(t)
			var runs atomic.Int32
			server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
				// Two runs ask the same question: one asks it, and the next finds a malformed answer.
				if n := runs.Add(1); n <= 8 {
					_, err := call.Elicit("k", form(fmt.Sprint("question ", (n-1)/2), `"v":{"type":"integer"}`))
					return "", err
				}
				return "done", nil
			})
			got := ask(t, srv, "tools/call", call("t", `{}`), func(servertest.Question) string { return accepted("x") })
			require.Contains(t, got, "done")
		})
	})
}

// The count of malformed answers travels with the state of a modern client.
func TestMalformedAnswersAtTwoReplicas(t *testing.T) {
	keys := server.WithStateKeys([]byte("0123456789abcdef0123456789ABCDEF"))
	a, b := newServer(t, keys), newServer(t, keys)
	addAge(a)
	addAge(b)
	at := []*rawPipe{dial(t, a), dial(t, b)}
	asked, _ := round(t, at[0], call("age", `{}`))
	for i := range 2 {
		asked, _ = round(t, at[(i+1)%2], retry(call("age", `{}`), asked.RequestState, "age", age(`"42"`)))
		require.Contains(t, asked.InputRequests, "age")
	}
	t.Run("a round without an answer does not count, and does not end the row", func(t *testing.T) {
		asked, _ = round(t, at[0], retry(call("age", `{}`), asked.RequestState))
		require.Contains(t, asked.InputRequests, "age")
	})
	_, answer := round(t, at[1], retry(call("age", `{}`), asked.RequestState, "age", age(`"42"`)))
	require.Contains(t, answer, textAge)
}

// The log and the error say what is wrong with an answer, and repeat nothing of it.
func TestFaultOfAnAnswerRepeatsNothing(t *testing.T) {
	const secret = "4711-secret"
	for name, tt := range map[string]struct {
		ask          func(*server.Call) error
		answer, want string
	}{
		"unknown property": {func(call *server.Call) error {
			_, err := call.Elicit("k", &mcp.ElicitParams{Message: "m", RequestedSchema: jsontext.Value(
				`{"type":"object","properties":{"v":{"type":"string"}},"additionalProperties":false}`)})
			return err
		}, `{"action":"accept","content":{"` + secret + `":"1"}}`, "content: unknown property"},
		"a list for an action": {func(call *server.Call) error {
			_, err := call.Elicit("k", form("m", `"v":{"type":"string"}`))
			return err
		}, `{"action":["` + secret + `"]}`, "a JSON array"},
		"an unknown action": {func(call *server.Call) error {
			_, err := call.Elicit("k", form("m", `"v":{"type":"string"}`))
			return err
		}, `{"action":"` + secret + `"}`, "the action is not known"},
		"no list of roots": {func(call *server.Call) error { _, err := call.Roots("k"); return err },
			`{"roots":"` + secret + `"}`, "roots must be an array"},
		"a root that is a text": {func(call *server.Call) error { _, err := call.Roots("k"); return err },
			`{"roots":["` + secret + `"]}`, "a JSON string"},
		"no model": {func(call *server.Call) error {
			_, err := call.Sample("k", &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser}}})
			return err
		}, `{"role":"user","content":{"type":"text","text":"` + secret + `"}}`, "a message has a role, content and the name of its model"},
	} {
		t.Run(name, func(t *testing.T) {
			var log logRecorder
			srv := newServer(t, server.WithLogger(slog.New(&log)))
			server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
				return "", tt.ask(call)
			})
			rpc, _ := callAsked(t, srv, mcp.LatestVersion, "t", tt.answer)
			require.Contains(t, rpc.Message, tt.want)
			require.NotContains(t, rpc.Message, secret)
			records := log.find("answer.malformed")
			require.NotEmpty(t, records)
			require.Contains(t, records[0].attrs["fault"], tt.want)
			require.NotContains(t, fmt.Sprint(log.records), secret)
		})
	}
}
