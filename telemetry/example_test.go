package telemetry_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A server that is not ours says what happens to a request.
func ExampleTelemetry_Begin() {
	tel, err := telemetry.New(telemetry.WithService("weather", "1.0.0"))
	if err != nil {
		panic(err)
	}
	defer tel.Shutdown(context.Background())

	ctx, op := tel.Begin(context.Background(), telemetry.Info{
		Method: mcp.MethodToolsCall, Target: "forecast", ID: mcp.IntID(1), Version: mcp.LatestVersion,
		Client: &mcp.Implementation{Name: "example-client", Version: "2.0"},
	})
	answer, failed := forecast(ctx)
	op.Result(failed, answer)
	op.End(telemetry.Outcome{})

	page := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, telemetry.MetricResponsesSent+`{method="tools/call"}`) {
			fmt.Print(line)
		}
	}
	// Output: vitrine_responses_sent_total{method="tools/call"} 1
}

func forecast(context.Context) (answer string, failed bool) { return "sunny", false }

// A request is cancelled. The page of requests in flight says by whom, and for how long.
func ExampleOperation_Cancelled() {
	tel, err := telemetry.New()
	if err != nil {
		panic(err)
	}
	defer tel.Shutdown(context.Background())

	_, op := tel.Begin(context.Background(), telemetry.Info{Method: mcp.MethodToolsCall, Target: "forecast"})
	op.Cancelled(mcp.CauseClientCancel, "the user has closed the window")

	page := httptest.NewRecorder()
	tel.RequestsHandler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/debug/requests?format=text", nil))
	fmt.Println(strings.Contains(page.Body.String(), "client_cancel"))

	op.End(telemetry.Outcome{Dropped: mcp.DropCancelled})
	// Output: true
}

// The metrics go into the registry that a program has already.
func ExampleNew() {
	registry := prometheus.NewRegistry()
	tel, err := telemetry.New(telemetry.WithRegistry(registry), telemetry.WithService("weather", "1.0.0"))
	if err != nil {
		panic(err)
	}
	defer tel.Shutdown(context.Background())
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == telemetry.MetricBuildInfo {
			fmt.Println(f.GetHelp())
		}
	}
	// Output: Constant 1, labelled with what was built.
}

// The wrapper tells operations from where their requests come.
func ExampleTelemetry_HTTP() {
	tel, err := telemetry.New()
	if err != nil {
		panic(err)
	}
	defer tel.Shutdown(context.Background())

	endpoint := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, op := tel.Begin(req.Context(), telemetry.Info{Method: mcp.MethodToolsCall, Target: "forecast"})
		defer op.End(telemetry.Outcome{})

		page := httptest.NewRecorder()
		tel.RequestsHandler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/debug/requests", nil))
		fmt.Println(bytes.Contains(page.Body.Bytes(), []byte(`"remote": "192.0.2.1:1234"`)))
	})
	tel.HTTP(endpoint).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mcp", nil))
	// Output: true
}

// Catalogue tells what there is to build dashboards of.
func ExampleCatalogue() {
	for _, m := range telemetry.Catalogue() {
		if m.Kind == telemetry.Histogram && strings.HasPrefix(m.OTel, "mcp.") {
			fmt.Fprintln(os.Stdout, m.OTel)
		}
	}
	// Output:
	// mcp.server.operation.duration
	// mcp.server.session.duration
	// mcp.client.operation.duration
}
