package server_test

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A panickingHandler panics in one of its methods, from the first call on.
type panickingHandler struct {
	in     string
	panics *atomic.Int64
}

func (h panickingHandler) maybe(method string) {
	if h.in == method {
		h.panics.Add(1)
		panic("the disk is full")
	}
}

func (h panickingHandler) Enabled(context.Context, slog.Level) bool { h.maybe("Enabled"); return true }
func (h panickingHandler) Handle(context.Context, slog.Record) error {
	h.maybe("Handle")
	return nil
}
func (h panickingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h panickingHandler) WithGroup(string) slog.Handler      { return h }

// setDefault makes a handler slog's default for a test.
func setDefault(t *testing.T, h slog.Handler) {
	before, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(h))
	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetOutput(out)
		log.SetFlags(flags)
	})
}

// Callers get the same answers whether the handler of the log panics or discards. The server
// drains, and the panics are counted.
func TestPanickingLogHandler(t *testing.T) {
	discard := slog.New(slog.DiscardHandler)
	want, _ := answersWithLog(t, discard, server.WithLogger(discard))
	for _, method := range []string{"Enabled", "Handle"} {
		t.Run(method, func(t *testing.T) {
			// Each server has a handler of its own, for it may log a little after its end.
			h := panickingHandler{method, &atomic.Int64{}}
			got, counted := answersWithLog(t, discard, server.WithLogger(slog.New(h)))
			require.Equal(t, want, got)
			require.Greater(t, h.panics.Load(), int64(10), "little was logged")
			require.Eventually(t, func() bool { return float64(h.panics.Load()) == counted() }, 10*time.Second, time.Millisecond)

			h = panickingHandler{method, &atomic.Int64{}}
			got, counted = answersWithLog(t, discard, server.WithLogger(discard),
				server.WithMiddleware(middleware.Logging(slog.New(h))))
			require.Equal(t, want, got)
			require.Positive(t, h.panics.Load())
			require.Eventually(t, func() bool { return float64(h.panics.Load()) == counted() }, 10*time.Second, time.Millisecond)

			h = panickingHandler{method, &atomic.Int64{}}
			setDefault(t, h)
			got, counted = answersWithLog(t, nil, server.WithLogger(nil))
			require.Equal(t, want, got)
			require.Greater(t, h.panics.Load(), int64(10), "little was logged")
			require.Eventually(t, func() bool { return counted() > 10 }, 10*time.Second, time.Millisecond)
			require.LessOrEqual(t, counted(), float64(h.panics.Load()), "others may use the default, too")
		})
	}
}

// traceIDs are what differs between the answers of two servers.
var traceIDs = regexp.MustCompile(`[0-9a-f]{32}`)

// answersWithLog plays what is logged on many goroutines, the readers' among them, and
// returns what the client has received, and how many panics were counted. Telemetry
// complains of them to its own logger, or to slog's default if that is nil.
func answersWithLog(t *testing.T, complaints *slog.Logger, opts ...server.Option) (answers []string, panics func() float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	tel, err := telemetry.New(telemetry.WithRegistry(registry), telemetry.WithLogger(complaints))
	require.NoError(t, err)
	srv := newServer(t, append([]server.Option{server.WithTelemetry(tel)}, opts...)...)
	addLogs(srv)
	server.AddTool(srv, server.Tool{Name: "echo"}, text("hello"))
	server.AddTool(srv, server.Tool{Name: "fail"}, func(context.Context, *server.Call, none) (string, error) {
		return "", errors.New("the city is not known")
	})
	server.AddPrompt(srv, server.Prompt{Name: "private"}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
		return nil, errors.New("private") // is logged, and the client sees "internal error"
	})
	server.AddTool(srv, server.Tool{Name: "panic"}, func(context.Context, *server.Call, none) (string, error) {
		panic("as requested")
	})
	started := make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		close(started)
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	p := dial(t, srv)
	for _, tool := range []string{"echo", "log", "fail", "panic", "nothing"} {
		answers = append(answers, p.ask(modern(1, "tools/call", call(tool, `{}`))))
	}
	answers = append(answers, p.ask(modern(2, "prompts/get", prompt("private", `{}`))))
	p.send(modern(3, "tools/call", call("wait", `{}`)))
	<-started
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"changed my mind"}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
	p.send(`{"jsonrpc":"2.0","id":5,"result":{}}`) // to no question
	answers = append(answers, p.ask("garbage"))
	answers = append(answers, p.ask(modern(6, "tools/call", call("echo", `{}`))))
	require.NoError(t, p.hangUp())
	url := listen(t, srv)
	_, body := exchange(t, "POST", url, modern(1, "tools/call", call("echo", `{}`)),
		"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo")
	_, refused := exchange(t, "POST", url, "garbage")
	answers = append(answers, body, refused)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, srv.Shutdown(ctx))
	// An exchange may have something to log after its answer, and after the end of the server.
	for i, answer := range answers {
		answers[i] = traceIDs.ReplaceAllString(answer, "<trace id>")
	}
	return answers, func() float64 { return samples(t, registry)[telemetry.MetricPanics].value }
}
