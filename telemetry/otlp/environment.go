package otlp

import (
	"cmp"
	"os"
	"strings"

	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// exporterOf returns the name of the exporter that the environment asks for, or
// "none": OTEL_<SIGNAL>_EXPORTER, or else "otlp" if an OTLP endpoint is set.
func exporterOf(s environment.Signal) string {
	upper := strings.ToUpper(string(s))
	if name := strings.TrimSpace(os.Getenv("OTEL_" + upper + "_EXPORTER")); name != "" {
		return name
	}
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+upper+"_ENDPOINT") != "" {
		return "otlp"
	}
	return environment.None
}

// protocolOf returns the OTLP protocol of a signal.
func protocolOf(s environment.Signal) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+strings.ToUpper(string(s))+"_PROTOCOL"),
		os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
}
