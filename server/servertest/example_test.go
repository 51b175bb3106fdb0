package servertest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

type forecastIn struct {
	City string `json:"city" jsonschema:"name of a city"`
}

type forecastOut struct {
	High int    `json:"high"`
	Sky  string `json:"sky"`
}

func newWeather() *server.Server {
	srv := server.New("weather", "1.2.0", server.WithTelemetry(telemetry.Disabled()))
	server.AddTool(srv, server.Tool{Name: "forecast", Description: "Forecast for a city"},
		func(_ context.Context, call *server.Call, in forecastIn) (forecastOut, error) {
			_ = call.Progress(1, 2, "asking the model")
			return forecastOut{High: 21, Sky: "clear over " + in.City}, nil
		})
	return srv
}

func Example() {
	t := newT() // an example has none; a test passes its own
	defer t.end()

	client := servertest.Connect(t, newWeather(), servertest.OnProgress(func(p servertest.Progress) {
		fmt.Println("progress:", p.Progress, "of", p.Total, p.Message)
	}))

	result, err := client.CallTool(context.Background(), "forecast", forecastIn{City: "Bern"})
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	var out forecastOut
	if err := result.Into(&out); err != nil {
		t.Fatalf("decode: %v", err)
	}
	fmt.Println(out.High, out.Sky)

	result, err = client.CallTool(context.Background(), "forecast", map[string]any{"town": "Bern"})
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	fmt.Println(result.IsError)
	fmt.Println(result.Text())

	// Output:
	// progress: 1 of 2 asking the model
	// 21 clear over Bern
	// true
	// The arguments of forecast are not valid:
	// - missing required property "city"
	// - unknown property "town"
}

// exampleT stands in for the *testing.T that an example does not have.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func newT() *exampleT                                 { return &exampleT{} }
func (t *exampleT) Helper()                           {}
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *exampleT) end() {
	for _, f := range t.cleanups {
		f()
	}
}
