package servertest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// What an operator would see of a call that fails.
func ExampleRecord() {
	t := newT() // an example has none; a test passes its own
	defer t.end()

	rec := servertest.Record(t)
	srv := server.New("weather", "1.2.0", rec)
	server.AddTool(srv, server.Tool{Name: "forecast"}, func(context.Context, *server.Call, struct{}) (string, error) {
		return "", errors.New("the model is away")
	})
	_, _ = servertest.Connect(t, srv).CallTool(context.Background(), "forecast", nil)

	span := rec.Span(t, "tools/call forecast", "error.type", "tool_error")
	rec.Metric(t, "vitrine_responses_sent_total", 1, "method", "tools/call")
	line := rec.Log(t, "handler.error", "target", "forecast")

	fmt.Println(line.Level, line.Attr("error"))
	fmt.Println(line.Attr("trace_id") == span.SpanContext().TraceID().String())

	// Output:
	// ERROR the model is away
	// true
}
