package auditotlp_test

import (
	"context"
	"fmt"

	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/audit/auditotlp"
)

// A printer stands for an exporter, such as that of otlploghttp.New.
type printer struct{}

func (printer) Export(_ context.Context, records []sdklog.Record) error {
	for i := range records {
		fmt.Println(records[i].EventName(), records[i].AttributesLen())
	}
	return nil
}

func (printer) Shutdown(context.Context) error   { return nil }
func (printer) ForceFlush(context.Context) error { return nil }

func ExampleNew() {
	sink, err := auditotlp.New(printer{}, nil)
	if err != nil {
		panic(err)
	}
	log, err := audit.New(audit.Config{Sinks: []audit.Sink{sink}})
	if err != nil {
		panic(err)
	}
	log.Add(audit.Record{Operation: "tools/call", Target: "forecast", Outcome: audit.OutcomeOK})
	if err := log.Close(context.Background()); err != nil {
		panic(err)
	}

	// Output:
	// mcp.audit 3
}
