package servers

import (
	"context"
	"net"
	"time"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/telemetry/otlp"
)

// unsampled records no spans. Metrics, live requests and the counting of drops are on.
func unsampled(string) []string { return []string{"OTEL_TRACES_SAMPLER=always_off"} }

// exported is the time within which everything is exported: twice the time between two exports.
const exported = 200 * time.Millisecond

// sampled exports one trace in ten, each tenth of a second.
func sampled(sink string) []string {
	return []string{
		"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.1",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + sink,
		"OTEL_BSP_SCHEDULE_DELAY=100",
	}
}

func newVitrine(tools int) (Server, error) { return vitrine(tools) }

func newVitrineOff(tools int) (Server, error) {
	return vitrine(tools, server.WithTelemetry(telemetry.Disabled()))
}

func vitrine(tools int, opts ...server.Option) (Server, error) {
	srv, err := server.TryNew("bench", "1", opts...)
	if err != nil {
		return Server{}, err
	}
	addTools(srv, tools)
	return alone(srv)
}

// addTools adds the tools to a server. A call of [Echo] needs the scopes.
func addTools(srv *server.Server, tools int, scopes ...string) {
	server.AddTool(srv, server.Tool{Name: Echo, Description: echoDescription, Scopes: scopes},
		func(_ context.Context, _ *server.Call, in text) (string, error) { return in.Text, nil })
	server.AddTool(srv, server.Tool{Name: Steps, Description: stepsDescription},
		func(_ context.Context, call *server.Call, _ none) (string, error) {
			for i := range StepCount {
				if err := call.Progress(float64(i+1), StepCount, ""); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	for _, name := range fillers(tools) {
		server.AddTool(srv, server.Tool{Name: name, Description: fillerDescription},
			func(context.Context, *server.Call, filler) (string, error) { return "", nil })
	}
}

// alone returns a server without package service, and starts its telemetry.
func alone(srv *server.Server) (Server, error) {
	if err := otlp.Start(context.Background(), srv.Telemetry()); err != nil {
		return Server{}, err
	}
	h := srv.Handler()
	return Server{
		Modern: h, Legacy: h, Stdio: srv.ServeStdio,
		Memory: func() (Ask, error) {
			return overPipe(func(c net.Conn) { _ = srv.ServePipe(context.Background(), c) }), nil
		},
	}, nil
}
