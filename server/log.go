package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// setLogLevel serves logging/setLevel.
func setLogLevel(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	var params mcp.SetLevelParams
	sess := era.CoreOf(req).Session()
	if wire.Unmarshal(req.Params, &params) != nil || params.Level.Severity() < 0 || sess == nil {
		return nil, era.BadLogLevel("params.level")
	}
	sess.SetLogLevel(params.Level)
	sess.Share(func(st *session.SharedState) { st.LogLevel = params.Level })
	return &mcp.EmptyResult{}, nil
}

// Log sends a message to the client, to the server's log and to the request's span
// (specification: "Logging"). data is any value that encodes to JSON, and must not contain
// secrets. The client gets the messages of the levels that it has asked for: a modern client asks
// with its request, a legacy client for its session (by default info and above). In the server's
// log the record is "call.log", at slog's level of the same name: notice is info + 2, critical,
// alert and emergency are error + 4, + 8 and + 12.
//
// Log returns an error for data that cannot be encoded and for an unknown level, and the errors of
// [Call.Progress]. The error is nil if the client has not asked for the message. Log waits for a
// slow reader as Progress does. The messages of a task go to the server's log only.
func (c *Call) Log(level mcp.LoggingLevel, data any) error { return c.LogAs("", level, data) }

// LogAs is [Call.Log] with the name of a logger, which is a part of the program.
func (c *Call) LogAs(logger string, level mcp.LoggingLevel, data any) error {
	severity := level.Severity()
	if severity < 0 {
		return fmt.Errorf("server: there is no log level %q", level)
	}
	raw, err := wire.Marshal(nil, data)
	if err != nil {
		return fmt.Errorf("server: encode a log message: %w", err)
	}
	text := logText(raw)
	c.logLocally(slogLevels[severity], logger, text)
	observe.Log(c.dialog.Core, level, logger, text)
	if c.run.Detached() { // nothing is sent to its client
		return c.run.Say("")
	}
	if !era.WantsLog(c.dialog.Core, severity) {
		c.dialog.Core.DropNotification(mcp.NotificationMessage, mcp.DropLevelFiltered)
		if c.dialog.Core.Settled() {
			return mcp.ErrRequestDone
		}
		return nil
	}
	params := wire.AppendString(append(make([]byte, 0, 64+len(logger)+len(raw)), `{"level":`...), string(level))
	if logger != "" {
		params = wire.AppendString(append(params, `,"logger":`...), logger)
	}
	params = append(append(append(params, `,"data":`...), raw...), '}')
	return c.dialog.Core.Notify(mcp.NotificationMessage, params, "") // without a key, so that no message replaces another
}

// slogLevels are the levels of log/slog, by severity.
var slogLevels = [...]slog.Level{
	slog.LevelDebug, slog.LevelInfo, slog.LevelInfo + 2, slog.LevelWarn,
	slog.LevelError, slog.LevelError + 4, slog.LevelError + 8, slog.LevelError + 12,
}

// maxLogText bounds the text of a message in the server's own log, in bytes.
const maxLogText = 4096

// logText returns the text of a message for the server's log: a string without its quotes.
func logText(raw jsontext.Value) string {
	var text string
	if raw.Kind() == '"' && json.Unmarshal(raw, &text) == nil {
		return logline.Printable(text, maxLogText)
	}
	return logline.Printable(string(raw), maxLogText)
}

// logLocally writes a message to the server's log, with the request's trace id.
func (c *Call) logLocally(level slog.Level, logger, text string) {
	if !c.dialog.Asker.Logger.Enabled(c.dialog.Ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", c.Method), slog.String("data", text)}
	if target := c.Route.Target; target != "" {
		attrs = append(attrs, slog.String("target", target))
	}
	if logger != "" {
		attrs = append(attrs, slog.String("logger", logger))
	}
	c.dialog.Asker.Logger.LogAttrs(c.dialog.Ctx, level, "call.log", attrs...)
}
