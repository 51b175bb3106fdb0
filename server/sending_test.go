package server_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// newAsking returns a server whose tool asks its user, behind a middleware of what is sent.
func newAsking(t *testing.T, sending middleware.Middleware, opts ...server.Option) *server.Server {
	srv := newServer(t, append(opts, server.WithSendingMiddleware(sending))...)
	server.AddTool(srv, server.Tool{Name: "ask"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		answer, err := call.Elicit("k", form("how are you?", anyForm))
		switch {
		case errors.Is(err, mcp.ErrInputRequired):
			return "", err
		case err != nil:
			return "not asked: " + err.Error(), nil
		}
		return string(answer.Action) + string(answer.Content), nil
	})
	return srv
}

// askedOf calls the tool and returns what the client was asked, and the answer of the tool.
func askedOf(t *testing.T, srv *server.Server, version mcp.Version) (questions []string, answer string) {
	opts := []servertest.Option{
		servertest.Capabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}),
		servertest.OnInput(func(_ context.Context, q servertest.Question) (any, error) {
			questions = append(questions, string(q.Params))
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"v":"well"}`)}, nil
		}),
	}
	if version != mcp.LatestVersion {
		opts = append(opts, servertest.Legacy(version))
	}
	result, err := servertest.Connect(t, srv, opts...).CallTool(t.Context(), "ask", nil)
	require.NoError(t, err)
	return questions, result.Text()
}

// Requests to clients pass the sending middlewares, in both eras, and not the other middlewares.
func TestSendingMiddlewareWrapsQuestions(t *testing.T) {
	for _, version := range []mcp.Version{mcp.LatestVersion, mcp.Version20251125} {
		t.Run(string(version), func(t *testing.T) {
			var sent []string
			srv := newAsking(t, func(next middleware.Handler) middleware.Handler {
				return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
					sent = append(sent, req.Method+" "+string(req.Peer.Version))
					changed := *req
					changed.Params = []byte(strings.ReplaceAll(string(req.Params), "how are you?", "WELL?"))
					return next(ctx, &changed)
				}
			}, server.WithMiddleware(func(next middleware.Handler) middleware.Handler {
				return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
					require.NotEqual(t, mcp.MethodElicitationCreate, req.Method)
					return next(ctx, req)
				}
			}))
			questions, answer := askedOf(t, srv, version)
			require.Equal(t, `accept{"v":"well"}`, answer)
			require.Len(t, questions, 1)
			require.Contains(t, questions[0], "WELL?")
			require.Equal(t, []string{"elicitation/create " + string(version)}, sent)
		})
	}
}

// A middleware may answer a question itself, refuse it, or panic. The client is not asked, and
// the handler gets the answer or the error.
func TestSendingMiddlewareAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		act  middleware.Handler
		want string
	}{
		"answers": {func(context.Context, *middleware.Request) (mcp.Result, error) {
			return &mcp.ClientResult{Value: []byte(`{"action":"decline"}`)}, nil
		}, "decline"},
		"refuses": {func(context.Context, *middleware.Request) (mcp.Result, error) {
			return middleware.Refuse(mcp.Refusal{Status: 429, Reason: "too_many_questions"})
		}, "not asked: refused: too_many_questions"},
		"panics": {func(context.Context, *middleware.Request) (mcp.Result, error) { panic("secret") },
			"not asked: server: a middleware of requests to clients has panicked: secret"},
		"answers with something else": {func(context.Context, *middleware.Request) (mcp.Result, error) { return &mcp.EmptyResult{}, nil },
			"not asked: server: a middleware of requests to clients has answered elicitation/create with a *mcp.EmptyResult"},
	} {
		for _, version := range []mcp.Version{mcp.LatestVersion, mcp.Version20251125} {
			t.Run(name+"/"+string(version), func(t *testing.T) {
				srv := newAsking(t, func(middleware.Handler) middleware.Handler { return tt.act })
				questions, answer := askedOf(t, srv, version)
				require.Equal(t, tt.want, answer)
				require.Empty(t, questions)
			})
		}
	}
}

// Middlewares wrap the handlers of notifications.
func TestMiddlewareWrapsNotifications(t *testing.T) {
	logs := &logRecorder{}
	var seen []string
	srv := newServer(t, byContext, server.WithLogger(slog.New(logs)), server.WithMiddleware(func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			if !req.ID.IsZero() {
				return next(ctx, req)
			}
			seen = append(seen, req.Route.Key+" of "+req.Principal.String())
			if strings.Contains(string(req.Params), "bad") {
				return nil, errors.New("not this one")
			}
			return next(ctx, req)
		}
	}))
	heard := make(chan string, 2)
	const name = "notifications/com.example/thing"
	server.AddNotification(srv, name, "", func(_ context.Context, _ *server.Notice, p struct {
		N string `json:"n"`
	}) {
		heard <- p.N
	})
	p := dialContext(t, as("ada"), srv)
	p.send(notice(name, `{"n":"bad"}`), notice(name, `{"n":"good"}`))
	require.Equal(t, "good", <-heard)
	require.Equal(t, []string{name + " of ada", name + " of ada"}, seen)
	require.Equal(t, "not this one", logs.find("notification.error")[0].attrs["error"])
}
