package main

import (
	"context"
	"net/http"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

func main() {
	tel, err := telemetry.New(telemetry.WithService("small", "1"))
	if err != nil {
		panic(err)
	}
	srv := server.New("small", "1", server.WithTelemetry(tel))
	server.AddTool(srv, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	http.Handle("/mcp", srv.Handler())
	http.Handle("/metrics", tel.MetricsHandler())
	http.Handle("/debug/requests", tel.RequestsHandler())
	http.Handle("/debug/traces", tel.TracesHandler())
	http.Handle("/debug/live", tel.LiveHandler())
	panic(http.ListenAndServe("127.0.0.1:8080", nil))
}
