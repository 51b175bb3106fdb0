package telemetry

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestBridge is how the tests of this package come by the bridge from the core, which
// imports it: a test beside the package fills it in.
var TestBridge struct {
	Start             func(context.Context, *Telemetry) error // of package otlp
	Observer          func(*Telemetry) session.Observer
	Source            func(func() *session.Snapshot) Source
	Error             func(*session.Request, error)
	Encoding          func(*session.Request, error)
	Result            func(*session.Request, *mcp.CallToolResult)
	Log               func(r *session.Request, level mcp.LoggingLevel, logger, text string)
	Validated         func(*session.Request, time.Duration)
	ArgumentsRejected func(*session.Request, string)
	TraceID           func(*session.Request) string
	HasRuntimeTask    func(*session.Request) bool
}

// A watchedCore is a core as a source of telemetry.
type watchedCore interface{ Snapshot() *session.Snapshot }

func sourceOf(c watchedCore) Source { return TestBridge.Source(c.Snapshot) }
