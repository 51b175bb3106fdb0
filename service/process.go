package service

import (
	"net/http"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A process is one running call of Run.
type process struct {
	*options
	srv     *server.Server
	cfg     Config
	signals *signals
	// container is how many bytes of memory the container allows; 0 is no limit. own is what the program or the operator
	// has reserved of max_memory.
	container, own int

	endpoint  *endpoint    // nil in stdio mode
	adminHTTP *http.Server // nil if it is off

	mcp      *listener     // nil in stdio mode
	admin    *listener     // nil if it is off
	stdio    chan struct{} // closed when ServeStdio has returned; nil in HTTP mode
	broken   chan error    // the error with which serving ended by itself
	draining atomic.Bool   // true when /readyz fails for the shutdown
	refusing atomic.Int64  // requests whose answers refuseStream is writing

	access *access

	switches *switches

	refusals logline.Limiter // of the admin listener
	last     lastScrape

	flight    *flight // nil if it is off
	flightOff string  // why it is off
}

// limitReached counts a limit of a listener that took effect.
func (p *process) limitReached(limit string) {
	p.srv.Telemetry().Count(telemetry.MetricLimitReached, limit)
}

// An endpoint is the handlers of the MCP listener.
type endpoint struct {
	mcp  http.Handler // the endpoint itself
	http *http.Server // serves the endpoint with its middleware and the routes
}
