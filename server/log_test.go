package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// addLogs adds a tool that logs once on each level.
func addLogs(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "log"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		for _, level := range mcp.LoggingLevels() {
			if err := call.Log(level, "at "+string(level)); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
}

// logged sends a call and returns the levels of the messages that precede its answer.
func logged(t *testing.T, p *rawPipe, request string) (levels []string) {
	t.Helper()
	p.send(request)
	for {
		var f frame
		line := p.recv()
		require.NoError(t, json.Unmarshal([]byte(line), &f))
		if f.Method == "" {
			require.Contains(t, line, `"done"`)
			return levels
		}
		var m struct{ Level, Data string }
		require.Equal(t, mcp.NotificationMessage, f.Method)
		require.NoError(t, json.Unmarshal(f.Params, &m))
		require.Equal(t, "at "+m.Level, m.Data)
		levels = append(levels, m.Level)
	}
}

// from returns the names of the levels from one on.
func from(least mcp.LoggingLevel) (names []string) {
	for _, level := range mcp.LoggingLevels() {
		if least != "" && level.Severity() >= least.Severity() {
			names = append(names, string(level))
		}
	}
	return names
}

func withLevel(level string) string { return `"io.modelcontextprotocol/logLevel":` + level }

// A modern client gets the messages of the level that this request asks for, and no others.
func TestLogLevelOfARequest(t *testing.T) {
	srv := newServer(t)
	addLogs(srv)
	p := dial(t, srv)
	p.initialize("2025-11-25") // a session's level is nothing to a modern request
	require.JSONEq(t, result(0, ``), p.ask(legacy(0, "logging/setLevel", `"level":"debug"`)))
	for _, level := range mcp.LoggingLevels() {
		require.Equal(t, from(level), logged(t, p, modern(1, "tools/call", call("log", `{}`), withLevel(`"`+string(level)+`"`))))
	}
	require.Empty(t, logged(t, p, modern(1, "tools/call", call("log", `{}`))))
	for _, bad := range []string{`"loud"`, `""`, `7`, `null`, `"INFO"`, `["info"]`} {
		for _, request := range []string{modern(1, "tools/call", call("log", `{}`), withLevel(bad)), modern(1, "tools/list", "", withLevel(bad))} {
			require.JSONEq(t, failure(1, -32602, "params._meta.io.modelcontextprotocol/logLevel must be one of [debug info notice warning error critical alert emergency]"),
				p.ask(request), bad)
		}
	}
}

// A legacy client sets the level of its session.
func TestLogLevelOfASession(t *testing.T) {
	srv := newServer(t)
	addLogs(srv)
	p, other := dial(t, srv), dial(t, srv)
	p.initialize("2025-11-25")
	other.initialize("2024-11-05")
	require.Equal(t, from(mcp.LogInfo), logged(t, p, legacy(1, "tools/call", call("log", `{}`))), "before it is set")
	for _, level := range mcp.LoggingLevels() {
		require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"result":{}}`, p.ask(legacy(1, "logging/setLevel", `"level":"`+string(level)+`"`)))
		require.Equal(t, from(level), logged(t, p, legacy(1, "tools/call", call("log", `{}`))))
	}
	for _, bad := range []string{`"level":"loud"`, `"level":7`, ``, `"level":null`, `"Level":"info"`} {
		require.JSONEq(t, failure(1, -32602, "params.level must be one of [debug info notice warning error critical alert emergency]"),
			p.ask(legacy(1, "logging/setLevel", bad)))
	}
	require.Equal(t, from(mcp.LogEmergency), logged(t, p, legacy(1, "tools/call", call("log", `{}`))), "a bad level changes nothing")
	require.Equal(t, from(mcp.LogInfo), logged(t, other, legacy(1, "tools/call", call("log", `{}`))), "another session")
}

// A message on the wire, with several kinds of data.
func TestLogMessage(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		if err := call.LogAs("db\n", mcp.LogWarning, map[string]any{"rows": 3, "": nil}); err != nil {
			return "", err
		}
		if err := call.Log(mcp.LogInfo, nil); err != nil {
			return "", err
		}
		require.ErrorContains(t, call.Log("loud", 1), `no log level "loud"`)
		require.ErrorContains(t, call.Log("info", func() {}), "encode a log message")
		return "done", nil
	})
	p := dial(t, srv)
	p.send(modern(1, "tools/call", call("t", `{}`), withLevel(`"info"`)))
	require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"db\n","data":{"rows":3,"":null}}}`, p.recv())
	require.JSONEq(t, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":null}}`, p.recv())
	require.Contains(t, p.recv(), `"done"`)
}

// The server's own log has every message, whatever the client has asked for.
func TestLogsLocally(t *testing.T) {
	rec := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(rec)))
	addLogs(srv)
	server.AddTool(srv, server.Tool{Name: "long"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		return "done", call.LogAs("db", mcp.LogInfo, map[string]string{"text": strings.Repeat("x", 10000)})
	})
	p := dial(t, srv)
	require.Empty(t, logged(t, p, modern(1, "tools/call", call("log", `{}`))))
	var levels []slog.Level
	for _, r := range rec.find("call.log") {
		levels = append(levels, r.level)
		require.Equal(t, "tools/call", r.attrs["method"])
		require.Equal(t, "log", r.attrs["target"])
	}
	require.Equal(t, []slog.Level{-4, 0, 2, 4, 8, 12, 16, 20}, levels)
	require.Equal(t, "at notice", rec.find("call.log")[2].attrs["data"])

	require.Empty(t, logged(t, p, modern(1, "tools/call", call("long", `{}`))))
	last := rec.find("call.log")[8]
	require.Equal(t, "db", last.attrs["logger"])
	require.Len(t, last.attrs["data"], 4096)
	require.True(t, strings.HasPrefix(last.attrs["data"], `{"text":"xxx`))
}

// Messages keep their place among reports of progress, and none replaces another, also for a
// slow reader.
func TestLogsAreNotCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithLimits(server.Limits{MaxQueuedMessages: 4}))
		server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			for i := range 20 {
				if err := call.Log(mcp.LogInfo, fmt.Sprint("message ", i)); err != nil {
					return "", err
				}
				if err := call.Progress(float64(i), 0, ""); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("t", `{}`), withLevel(`"info"`), `"progressToken":1`))
		var messages []string
		for {
			line := p.recv()
			if strings.Contains(line, `"done"`) {
				break
			}
			if strings.Contains(line, `"message `) {
				messages = append(messages, line)
			}
		}
		require.Len(t, messages, 20)
		for i, line := range messages {
			require.Contains(t, line, fmt.Sprintf(`"message %d"`, i))
		}
	})
}

// The messages of a call that has ended go to the server's log only.
func TestLateLog(t *testing.T) {
	srv := newServer(t)
	late := make(chan *server.Call, 1)
	server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		late <- call
		return "done", nil
	})
	p := dial(t, srv)
	for _, meta := range []string{withLevel(`"info"`), `"x":1`} {
		require.Contains(t, p.ask(modern(1, "tools/call", call("t", `{}`), meta)), `"done"`)
		require.ErrorIs(t, (<-late).Log(mcp.LogInfo, "late"), mcp.ErrRequestDone)
	}
}

// Over HTTP messages precede the answer on its stream.
func TestLogsOverHTTP(t *testing.T) {
	srv := newServer(t)
	addLogs(srv)
	url := listen(t, srv)
	headers := []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: log"}
	res, body := exchange(t, "POST", url, modern(1, "tools/call", call("log", `{}`), withLevel(`"error"`)), headers...)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	require.Equal(t, 4, strings.Count(body, "notifications/message"))
	require.Less(t, strings.LastIndex(body, "notifications/message"), strings.Index(body, `"done"`))
	res, body = exchange(t, "POST", url, modern(1, "tools/call", call("log", `{}`)), headers...)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.NotContains(t, body, "notifications")
	res, body = exchange(t, "POST", url, modern(1, "tools/call", call("log", `{}`), withLevel(`"loud"`)), headers...)
	require.Equal(t, 400, res.StatusCode)
	require.Contains(t, body, "-32602")
}

// The records carry the trace of their request, and its span has the messages.
func TestLogsHaveTheTrace(t *testing.T) {
	var text bytes.Buffer
	spans := tracetest.NewSpanRecorder()
	tel, err := telemetry.New(telemetry.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
	require.NoError(t, err)
	srv := server.New("test", "1", server.WithTelemetry(tel), server.WithLogger(slog.New(slog.NewJSONHandler(&text, nil))))
	addLogs(srv)
	p := dial(t, srv)
	const parent = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
	require.Empty(t, logged(t, p, modern(1, "tools/call", call("log", `{}`), parent)))
	require.NoError(t, p.hangUp())
	require.Equal(t, 7, strings.Count(text.String(), `"msg":"call.log"`), "debug is off")
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, `"msg":"call.log"`) {
			require.Contains(t, line, `"trace_id":"0af7651916cd43dd8448eb211c80319c"`)
		}
	}
	require.Len(t, spans.Ended(), 1)
	require.Len(t, spans.Ended()[0].Events(), 8)
	require.Equal(t, "vitrine.log", spans.Ended()[0].Events()[0].Name)
}
