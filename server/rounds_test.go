package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

func form(message, properties string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: jsontext.Value(
		`{"type":"object","properties":{` + properties + `},"required":["v"]}`)}
}

// accepted is the answer of a user who fills in v.
func accepted(v string) string { return `{"action":"accept","content":{"v":"` + v + `"}}` }

// messageOf returns the message of an elicitation.
func messageOf(t *testing.T, q servertest.Question) string {
	t.Helper()
	var p mcp.ElicitParams
	require.NoError(t, json.Unmarshal(q.Params, &p))
	return p.Message
}

// askFive asks five questions one after the other and keeps what it has heard.
func askFive(call *server.Call) (string, error) {
	var heard []string
	if _, err := call.Kept(&heard); err != nil {
		return "", err
	}
	for len(heard) < 5 {
		n := len(heard) + 1
		r, err := call.Elicit(fmt.Sprintf("q%d", n), form(fmt.Sprintf("question %d", n), `"v":{"type":"string"}`))
		if err != nil {
			return "", fmt.Errorf("wrapped: %w", err)
		}
		var content struct{ V string }
		if err := json.Unmarshal(r.Content, &content); err != nil {
			return "", err
		}
		heard = append(heard, content.V)
		if err := call.Keep(heard); err != nil {
			return "", err
		}
	}
	return strings.Join(heard, " "), nil
}

// One handler, five rounds, both eras, every transport.
func TestFiveRounds(t *testing.T) {
	eachWay(t, "", func(t *testing.T, ask asker) {
		srv := newServer(t)
		var runs atomic.Int32
		server.AddTool(srv, server.Tool{Name: "five"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			runs.Add(1)
			return askFive(call)
		})
		var asked []string
		got := ask(t, srv, "tools/call", call("five", `{}`), func(q servertest.Question) string {
			require.Equal(t, mcp.MethodElicitationCreate, q.Method)
			asked = append(asked, messageOf(t, q))
			return accepted(fmt.Sprintf("a%d", len(asked)))
		})
		require.Contains(t, got, `"text":"a1 a2 a3 a4 a5"`)
		require.Equal(t, []string{"question 1", "question 2", "question 3", "question 4", "question 5"}, asked)
		require.EqualValues(t, 6, runs.Load())
	})
}

// Three questions of three kinds in one round.
func TestParallelQuestions(t *testing.T) {
	eachWay(t, "", func(t *testing.T, ask asker) {
		srv := newServer(t)
		var runs atomic.Int32
		server.AddTool(srv, server.Tool{Name: "all"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			runs.Add(1)
			user, err1 := call.Elicit("user", form("who?", `"v":{"type":"string"}`))
			model, err2 := call.Sample("model", &mcp.CreateMessageParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{
				{Role: mcp.RoleUser, Content: mcp.ContentBlocks{&mcp.TextContent{Text: "what?"}}},
			}})
			roots, err3 := call.Roots("roots")
			if err := errors.Join(err1, err2, err3); err != nil {
				return "", err
			}
			return string(user.Content) + model.Content.Text() + roots[0].URI, nil
		})
		var mu sync.Mutex
		var asked []string
		got := ask(t, srv, "tools/call", call("all", `{}`), func(q servertest.Question) string {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, q.Method)
			switch q.Method {
			case mcp.MethodElicitationCreate:
				return accepted("me")
			case mcp.MethodSamplingCreateMessage:
				require.JSONEq(t, `{"messages":[{"role":"user","content":{"type":"text","text":"what?"}}],"maxTokens":10}`, string(q.Params))
				return `{"role":"assistant","content":{"type":"text","text":"that"},"model":"m"}`
			}
			return `{"roots":[{"uri":"file:///x"}]}`
		})
		require.Contains(t, got, `"text":"{\"v\":\"me\"}thatfile:///x"`)
		slices.Sort(asked)
		require.Equal(t, []string{mcp.MethodElicitationCreate, mcp.MethodRootsList, mcp.MethodSamplingCreateMessage}, asked)
		require.EqualValues(t, 2, runs.Load())
	})
}

// A legacy client gets all questions of a round before it answers one.
func TestParallelQuestionsWaitTogether(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "two"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		_, err1 := call.Elicit("a", form("a", `"v":{"type":"string"}`))
		_, err2 := call.Elicit("b", form("b", `"v":{"type":"string"}`))
		return "done", errors.Join(err1, err2)
	})
	both := make(chan struct{})
	var waiting atomic.Int32
	client := servertest.Connect(t, srv, servertest.Legacy(mcp.Version20251125), servertest.Capabilities(allCapabilities()),
		servertest.OnInput(func(context.Context, servertest.Question) (any, error) {
			if waiting.Add(1) == 2 {
				close(both)
			}
			<-both
			return jsontext.Value(accepted("x")), nil
		}))
	result, err := client.CallTool(t.Context(), "two", nil)
	require.NoError(t, err)
	require.Equal(t, "done", result.Text())
}

// An invalid answer is asked for again, and the handler never gets it.
func TestMalformedAnswers(t *testing.T) {
	forms := []string{
		`12345`, `null`, `"yes"`, `[]`, `{}`, `{"action":"maybe"}`, `{"action":"accept","content":null}`, `{"action":7}`,
		`{"action":"accept","content":{"v":5}}`, `{"action":"accept","content":{}}`, `{"action":"accept","content":"x"}`, `{"action":"accept"}`,
	}
	samples := []string{
		`null`, `{}`, `{"role":"assistant","model":"m"}`, `{"role":"system","content":{"type":"text","text":"x"},"model":"m"}`,
		`{"role":"user","content":{"type":"text","text":"x"}}`, `{"role":"user","content":{"type":"smell"},"model":"m"}`,
		`{"role":"user","content":[],"model":"m"}`, `{"role":"user","content":null,"model":"m"}`,
	}
	roots := []string{`null`, `{}`, `{"roots":null}`, `{"roots":{}}`, `{"roots":[{"name":"x"}]}`, `{"roots":[7]}`, `{"roots":[null]}`}
	for _, kind := range []struct {
		tool string
		bad  []string
		good string
	}{
		{"form", forms, accepted("x")},
		{"model", samples, `{"role":"assistant","content":[{"type":"text","text":"x"}],"model":"m"}`},
		{"roots", roots, `{"roots":[]}`},
	} {
		t.Run(kind.tool, func(t *testing.T) {
			for bad := range slices.Chunk(kind.bad, 2) { // a third one would end the request
				eachWay(t, "2025-11-25 in memory", func(t *testing.T, ask asker) { malformed(t, ask, kind.tool, bad, kind.good) })
				eachWay(t, "modern over HTTP", func(t *testing.T, ask asker) { malformed(t, ask, kind.tool, bad, kind.good) })
			}
		})
	}
}

func malformed(t *testing.T, ask asker, tool string, bad []string, good string) {
	srv := newServer(t)
	var answered atomic.Int32
	server.AddTool(srv, server.Tool{Name: tool}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		var err error
		switch tool {
		case "form":
			_, err = call.Elicit("k", form("k", `"v":{"type":"string"}`))
		case "model":
			_, err = call.Sample("k", &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser}}})
		default:
			_, err = call.Roots("k")
		}
		if err == nil {
			answered.Add(1)
		}
		return "done", err
	})
	left := slices.Clone(bad)
	got := ask(t, srv, "tools/call", call(tool, `{}`), func(servertest.Question) string {
		assert.Zero(t, answered.Load(), "after %d of %d", len(bad)-len(left), len(bad))
		if len(left) == 0 {
			return good
		}
		next := left[0]
		left = left[1:]
		return next
	})
	require.Contains(t, got, `"done"`)
	require.Empty(t, left)
	require.EqualValues(t, 1, answered.Load())
}
