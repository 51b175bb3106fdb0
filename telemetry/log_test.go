package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"testing/synctest"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

var someSpan = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0xab}, SpanID: trace.SpanID{0xcd}})

// logged returns what a logger with our handler writes, as JSON.
func logged(t *testing.T, ctx context.Context, log func(context.Context, *slog.Logger)) map[string]any {
	t.Helper()
	var buf bytes.Buffer
	log(ctx, slog.New(Disabled().LogHandler(slog.NewJSONHandler(&buf, nil))))
	var m map[string]any
	require.NoError(t, json.Unmarshal(buf.Bytes(), &m))
	delete(m, "time")
	return m
}

func TestLogHandlerAddsTheTrace(t *testing.T) {
	ctx := trace.ContextWithSpanContext(t.Context(), someSpan)
	ids := func(m map[string]any) map[string]any {
		m["level"], m["msg"] = "INFO", "m"
		m["trace_id"], m["span_id"] = someSpan.TraceID().String(), someSpan.SpanID().String()
		return m
	}
	for name, tc := range map[string]struct {
		log  func(context.Context, *slog.Logger)
		want map[string]any
	}{
		"plain": {
			func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "m", "a", "b") },
			ids(map[string]any{"a": "b"}),
		},
		"with": {
			func(ctx context.Context, l *slog.Logger) { l.With("w", "x").InfoContext(ctx, "m", "a", "b") },
			ids(map[string]any{"a": "b", "w": "x"}),
		},
		"group": {
			func(ctx context.Context, l *slog.Logger) {
				l.With("w", "x").WithGroup("g").With("y", "z").WithGroup("h").InfoContext(ctx, "m", "a", "b")
			},
			ids(map[string]any{"w": "x", "g": map[string]any{"y": "z", "h": map[string]any{"a": "b"}}}),
		},
		"siblings": {
			func(ctx context.Context, l *slog.Logger) {
				base := l.WithGroup("g").With("y", "z")
				base.With("other", 1)
				base.With("mine", "x").InfoContext(ctx, "m")
			},
			ids(map[string]any{"g": map[string]any{"y": "z", "mine": "x"}}),
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, logged(t, ctx, tc.log)) })
	}
	got := logged(t, t.Context(), func(ctx context.Context, l *slog.Logger) { l.InfoContext(ctx, "m") })
	require.NotContains(t, got, "trace_id")
}

// TestLogHandlerIsAHandler runs the tests that slog has for handlers.
func TestLogHandlerIsAHandler(t *testing.T) {
	var buf *bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		buf = &bytes.Buffer{}
		return Disabled().LogHandler(slog.NewJSONHandler(buf, nil))
	}, func(t *testing.T) map[string]any {
		var m map[string]any
		require.NoError(t, json.Unmarshal(buf.Bytes(), &m))
		return m
	})
}

// A brittleHandler panics in one of its methods.
type brittleHandler struct {
	slog.Handler
	in string
}

func (h brittleHandler) maybe(method string) {
	if h.in == method {
		panic("the disk is full")
	}
}

func (h brittleHandler) Enabled(ctx context.Context, level slog.Level) bool {
	h.maybe("Enabled")
	return h.Handler.Enabled(ctx, level)
}

func (h brittleHandler) Handle(ctx context.Context, rec slog.Record) error {
	h.maybe("Handle")
	return h.Handler.Handle(ctx, rec)
}

func (h brittleHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.maybe("WithAttrs")
	return brittleHandler{h.Handler.WithAttrs(attrs), h.in}
}

func (h brittleHandler) WithGroup(name string) slog.Handler {
	h.maybe("WithGroup")
	return brittleHandler{h.Handler.WithGroup(name), h.in}
}

// A panic of the program's log handler loses only its record, and is counted. That is also so if
// the panic is logged with the same handler, as in a service.
func TestPanickingLogHandler(t *testing.T) {
	for in, want := range map[string]struct {
		text   string
		panics float64
	}{
		"":          {`{"level":"INFO","msg":"m","w":"x","g":{"y":"z","a":"b"}}`, 0},
		"Enabled":   {``, 2}, // the complaint too
		"Handle":    {``, 2},
		"WithAttrs": {`{"level":"INFO","msg":"m","g":{"a":"b"}}`, 2},
		"WithGroup": {`{"level":"INFO","msg":"m","w":"x","y":"z","a":"b"}`, 1},
	} {
		t.Run(in, func(t *testing.T) {
			var buf bytes.Buffer
			tel, err := New()
			require.NoError(t, err)
			h := tel.LogHandler(brittleHandler{slog.NewJSONHandler(&buf, &slog.HandlerOptions{
				ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey {
						return slog.Attr{}
					}
					return a
				},
			}), in})
			tel.logger = slog.New(h)
			slog.New(h).With("w", "x").WithGroup("g").With("y", "z").Info("m", "a", "b")
			var text []string
			for line := range strings.Lines(buf.String()) {
				if !strings.Contains(line, "telemetry.panic") {
					text = append(text, strings.TrimSpace(line))
				}
			}
			require.Equal(t, want.text, strings.Join(text, "\n"))
			require.Equal(t, want.panics, value(gather(t, tel.Registry()), MetricPanics))
		})
	}
}

// Log records of a handler are on its span if the span is recorded, up to a limit.
func TestRecordLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.tools["t"] = func(_ context.Context, q *session.Request) (mcp.Result, error) {
			TestBridge.Log(q, mcp.LogNotice, "", "first")
			TestBridge.Log(q, mcp.LogAlert, strings.Repeat("l", 100), "second\n"+strings.Repeat("x", 1000))
			return &mcp.CallToolResult{}, nil
		}
		r.post(call("t"), &sink{})
		events := r.span().Events()
		require.Len(t, events, 2)
		require.Equal(t, map[string]any{"vitrine.log.level": "notice", "vitrine.log.message": "first"}, attrMap(events[0].Attributes))
		require.Equal(t, map[string]any{
			"vitrine.log.level": "alert", "vitrine.log.logger": strings.Repeat("l", 64),
			"vitrine.log.message": "second\ufffd" + strings.Repeat("x", 249),
		}, attrMap(events[1].Attributes))
	})
	TestBridge.Log(&session.Request{}, mcp.LogInfo, "", "nobody observes it")
}
