package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

type trip struct {
	City string `json:"city"`
}

// newTravel returns a server with a tool that asks its user where to go, in two rounds.
func newTravel(opts ...server.Option) *server.Server {
	srv := newServer(append(opts, server.WithErrorDetails())...)
	server.AddTool(srv, server.Tool{Name: "travel"}, func(_ context.Context, call *server.Call, in struct {
		N int64 `json:"n"`
	}) (string, error) {
		from, _, err := server.ElicitForm[trip](call, "from", "From where?")
		if err != nil {
			return "", err
		}
		to, action, err := server.ElicitForm[trip](call, "to", "Where to?")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(in.N, from, to, action), nil
	})
	return srv
}

var canElicit = servertest.Capabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}})

func TestOnInput(t *testing.T) {
	for _, version := range []mcp.Version{mcp.Version20260728, mcp.Version20251125, mcp.Version20250618} {
		t.Run(string(version), func(t *testing.T) {
			opts := []servertest.Option{canElicit, servertest.OnInput(func(_ context.Context, q servertest.Question) (any, error) {
				require.Equal(t, mcp.MethodElicitationCreate, q.Method)
				var p mcp.ElicitParams
				require.NoError(t, json.Unmarshal(q.Params, &p))
				if p.Message == "Where to?" {
					return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
				}
				require.Equal(t, version == mcp.LatestVersion, q.Key == "from")
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsontext.Value(`{"city":"Bern"}`)}, nil
			})}
			if version != mcp.LatestVersion {
				opts = append(opts, servertest.Legacy(version))
			}
			client := servertest.Connect(t, newTravel(), opts...)
			result, err := client.CallTool(t.Context(), "travel", map[string]int64{"n": 9007199254740993})
			require.NoError(t, err)
			require.Equal(t, "9007199254740993 {Bern} {}decline", result.Text())
		})
	}
}

func TestWithoutOnInputQuestionsAreReturned(t *testing.T) {
	raw, err := servertest.Connect(t, newTravel(), canElicit).Call(t.Context(), mcp.MethodToolsCall, mcp.CallToolParams{Name: "travel", Arguments: jsontext.Value(`{"n":1}`)})
	require.NoError(t, err)
	require.Contains(t, string(raw), `"input_required"`)
	result, err := servertest.Connect(t, newTravel(), canElicit, servertest.Legacy(mcp.Version20251125)).CallTool(t.Context(), "travel", map[string]int{"n": 1})
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Contains(t, result.Text(), `the client has no method "elicitation/create" (-32601)`)
}

func TestOnInputFails(t *testing.T) {
	for _, tt := range []struct {
		err                  error
		answer               any
		modern, legacyAnswer string
	}{
		{errors.New("no"), nil, `servertest: question "from": no`, "the client answered with an error: no (-32603)"},
		{mcp.NewError(-5, "never"), nil, `servertest: question "from": never (-5)`, "the client answered with an error: never (-5)"},
		{nil, nil, "neither an answer nor an error", "neither an answer nor an error"},
		{nil, func() {}, "func()", "func()"},
	} {
		input := servertest.OnInput(func(context.Context, servertest.Question) (any, error) { return tt.answer, tt.err })
		_, err := servertest.Connect(t, newTravel(), canElicit, input).CallTool(t.Context(), "travel", map[string]int{"n": 1})
		require.ErrorContains(t, err, tt.modern)
		result, err := servertest.Connect(t, newTravel(), canElicit, input, servertest.Legacy(mcp.Version20251125)).CallTool(t.Context(), "travel", map[string]int{"n": 1})
		require.NoError(t, err)
		require.Contains(t, result.Text(), tt.legacyAnswer)
	}
}

// A question without an answer does not block Close, and its context ends with the connection.
func TestInputEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 1)
		client := servertest.Connect(t, newTravel(), canElicit, servertest.Legacy(mcp.Version20251125),
			servertest.OnInput(func(ctx context.Context, _ servertest.Question) (any, error) {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return nil, ctx.Err()
			}))
		go func() { _, _ = client.CallTool(context.Background(), "travel", map[string]int{"n": 1}) }()
		synctest.Wait()
		require.NoError(t, client.Close())
		require.ErrorIs(t, <-causes, mcp.ErrPeerGone)
	})
}
