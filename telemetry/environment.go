package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// propagatorFromEnv reads OTEL_PROPAGATORS. The error lists unknown names. The propagator is
// valid even then.
func propagatorFromEnv() (propagation.TextMapPropagator, error) {
	names, set := os.LookupEnv("OTEL_PROPAGATORS")
	if !set || strings.TrimSpace(names) == "" {
		names = "tracecontext,baggage"
	}
	var parts []propagation.TextMapPropagator
	var unknown []string
	for name := range strings.SplitSeq(names, ",") {
		switch name = strings.TrimSpace(name); name {
		case "tracecontext":
			parts = append(parts, propagation.TraceContext{})
		case "baggage":
			parts = append(parts, propagation.Baggage{})
		case environment.None, "":
		default:
			unknown = append(unknown, name)
		}
	}
	var err error
	if unknown != nil {
		err = fmt.Errorf("telemetry: OTEL_PROPAGATORS: no key of _meta carries %s", strings.Join(unknown, ", "))
	}
	return propagation.NewCompositeTextMapPropagator(parts...), err
}

// samplerFromEnv reads OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG as the SDK does. The SDK
// does not return the sampler that it makes. With an error the sampler is valid: the default
// one, or a ratio of 1 if the ratio is wrong.
func samplerFromEnv() (sdktrace.Sampler, error) {
	value := strings.ToLower(strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER")))
	name, followsParent := strings.CutPrefix(value, "parentbased_")
	var sampler sdktrace.Sampler
	var err error
	switch name {
	case "always_on":
		sampler = sdktrace.AlwaysSample()
	case "always_off":
		sampler = sdktrace.NeverSample()
	case "traceidratio":
		var ratio float64
		ratio, err = samplerRatio(os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
		sampler = sdktrace.TraceIDRatioBased(ratio)
	default:
		sampler, followsParent = sdktrace.AlwaysSample(), true
		if value != "" {
			err = fmt.Errorf("telemetry: OTEL_TRACES_SAMPLER: there is no sampler %q: the default one is used", value)
		}
	}
	if followsParent {
		sampler = sdktrace.ParentBased(sampler)
	}
	return sampler, err
}

// samplerRatio reads the share of traces that is sampled. It is 1 if arg is empty or wrong.
func samplerRatio(arg string) (float64, error) {
	if arg = strings.TrimSpace(arg); arg == "" {
		return 1, nil
	}
	ratio, err := strconv.ParseFloat(arg, 64)
	if err == nil && (ratio < 0 || ratio > 1) {
		err = errors.New("it is not between 0 and 1")
	}
	if err != nil {
		return 1, fmt.Errorf("telemetry: OTEL_TRACES_SAMPLER_ARG: every trace is sampled: %w", err)
	}
	return ratio, nil
}

// newResource describes the process. The environment has precedence.
func newResource(cfg *config) (*resource.Resource, error) {
	res, err := resource.New(context.Background(),
		resource.WithService(), // an instance id, and a default name
		resource.WithAttributes(appendText(appendText(nil, "service.name", cfg.service), "service.version", cfg.version)...),
		resource.WithHost(),
		resource.WithProcessPID(),
		resource.WithProcessRuntimeName(),
		resource.WithProcessRuntimeVersion(),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv())
	if err != nil {
		err = fmt.Errorf("telemetry: resource: %w", err)
	}
	return res, err
}
