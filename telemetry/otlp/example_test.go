package otlp_test

import (
	"context"
	"fmt"

	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/telemetry/otlp"
)

// A program exports what the OTEL_* variables ask for: nothing, if none is set.
func ExampleStart() {
	ctx := context.Background()
	tel, err := telemetry.New(telemetry.WithService("weather", "1.0.0"))
	if err != nil {
		panic(err)
	}
	if err := otlp.Start(ctx, tel); err != nil {
		fmt.Println("not exported:", err) // no reason not to serve
	}
	// … serve …
	if err := tel.Shutdown(ctx); err != nil {
		fmt.Println("not everything was exported:", err)
	}
	// Output:
}
