package service

import (
	"net/http"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A process is one Run at work.
type process struct {
	*options
	srv     *server.Server
	cfg     Config
	signals *signals

	endpoint  *endpoint    // nil in stdio mode
	adminHTTP *http.Server // nil if it is off

	mcp      *listener     // nil in stdio mode
	admin    *listener     // nil if it is off
	stdio    chan struct{} // closed when stdio was served; nil in HTTP mode
	broken   chan error    // why serving has ended by itself
	draining atomic.Bool   // as soon as /readyz says no

	refusals logline.Limiter // of the admin listener
	last     lastScrape

	flight    *flight // nil if it is off
	flightOff string  // why it is
}

// limitReached counts that a limit of a listener took effect.
func (p *process) limitReached(limit string) {
	p.srv.Telemetry().Count(telemetry.MetricLimitReached, limit)
}

// An endpoint is what the MCP listener serves.
type endpoint struct {
	mcp  http.Handler // the endpoint itself
	http *http.Server // with everything around it and beside it
}
