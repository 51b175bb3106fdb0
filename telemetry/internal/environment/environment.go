// Package environment reads the variables of OpenTelemetry that several packages of telemetry
// need.
package environment

import (
	"os"
	"strings"
)

// A Signal is one of OpenTelemetry's three, by the name that its variables have.
type Signal string

// The signals.
const (
	Traces  Signal = "traces"
	Metrics Signal = "metrics"
	Logs    Signal = "logs"
)

// Signals lists them.
func Signals() []Signal { return []Signal{Traces, Metrics, Logs} }

// None is the value of a variable that switches what it names off.
const None = "none"

// IsTrue reports whether a variable is true, in upper or lower case.
func IsTrue(name string) bool {
	return strings.EqualFold(strings.TrimSpace(os.Getenv(name)), "true")
}

// SDKDisabled reports whether OTEL_SDK_DISABLED switches traces and exports off.
func SDKDisabled() bool { return IsTrue("OTEL_SDK_DISABLED") }
