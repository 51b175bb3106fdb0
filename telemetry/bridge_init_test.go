package telemetry_test

import (
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/telemetry/otlp"
)

func init() {
	b := &telemetry.TestBridge
	b.Start = otlp.Start
	b.Observer = func(t *telemetry.Telemetry) session.Observer { return observe.New(t) }
	b.Source = func(snapshot func() *session.Snapshot) telemetry.Source { return observe.Source(snapshot) }
	b.Error, b.Encoding, b.Result, b.Log = observe.Error, observe.Encoding, observe.Result, observe.Log
	b.Validated, b.ArgumentsRejected = observe.Validated, observe.ArgumentsRejected
	b.TraceID, b.HasRuntimeTask = observe.TraceID, observe.HasRuntimeTask
}
