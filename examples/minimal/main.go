// Minimal is the smallest production-shaped MCP service: one tool, served over
// HTTP (or, with --stdio, over standard input and output) with metrics, traces,
// health checks and an orderly shutdown. Try it:
//
//	go run ./examples/minimal
package main

import (
	"context"
	"log"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

type forecastIn struct {
	City string `json:"city" jsonschema:"name of a city"`
}

type forecastOut struct {
	Sky  string `json:"sky"`
	High int    `json:"high" jsonschema:"degrees Celsius"`
}

func main() {
	if err := service.Run(context.Background(), newServer()); err != nil { // HTTP, stdio, /metrics, traces, health, drain
		log.Fatal(err) // nil after a clean shutdown
	}
}

func newServer() *server.Server {
	srv := server.New("weather", "1.2.0")
	server.AddTool(srv, server.Tool{Name: "forecast", Description: "Forecast for a city"},
		func(ctx context.Context, call *server.Call, in forecastIn) (forecastOut, error) {
			if err := call.Progress(0.5, 1, "asking the model"); err != nil {
				return forecastOut{}, err // the call was cancelled
			}
			return lookup(ctx, in.City)
		})
	return srv
}

// lookup stands in for the real work.
func lookup(_ context.Context, city string) (forecastOut, error) {
	if city == "" {
		return forecastOut{}, mcp.ToolErrorf("name a city")
	}
	return forecastOut{Sky: "clear", High: 15 + len(city)%10}, nil
}
