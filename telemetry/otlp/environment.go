package otlp

import (
	"os"
	"strings"
)

// A signal is one of OpenTelemetry's three, by the name that its variables have.
type signal string

const (
	signalTraces  signal = "traces"
	signalMetrics signal = "metrics"
	signalLogs    signal = "logs"
)

// exporterNone is the value of an exporter variable that switches a signal off.
const exporterNone = "none"

// sdkDisabled reports whether OTEL_SDK_DISABLED switches all exports off.
func sdkDisabled() bool {
	return strings.EqualFold(strings.TrimSpace(os.Getenv("OTEL_SDK_DISABLED")), "true")
}

// exporter returns the name of the exporter that the environment asks for, or
// "none": OTEL_<SIGNAL>_EXPORTER, or else "otlp" if an OTLP endpoint is set.
func (s signal) exporter() string {
	upper := strings.ToUpper(string(s))
	if name := strings.TrimSpace(os.Getenv("OTEL_" + upper + "_EXPORTER")); name != "" {
		return name
	}
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+upper+"_ENDPOINT") != "" {
		return "otlp"
	}
	return exporterNone
}

// protocol returns the OTLP protocol of the signal.
func (s signal) protocol() string {
	if p := os.Getenv("OTEL_EXPORTER_OTLP_" + strings.ToUpper(string(s)) + "_PROTOCOL"); p != "" {
		return p
	}
	if p := os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" {
		return p
	}
	return "http/protobuf"
}
