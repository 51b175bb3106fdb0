package telemetry

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/attribute"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// A Redactor takes out of a tool's arguments, or of its result, what must not be
// recorded, and returns the rest, which need not be JSON; nothing at all leaves the
// attribute out. It must not change value. It is called on many goroutines, and only
// for spans that are recorded; if it panics, nothing is recorded and the panic is
// counted ([MetricPanics]).
type Redactor func(tool string, value jsontext.Value) jsontext.Value

// WithArguments puts the arguments of tool calls on their spans
// (gen_ai.tool.call.arguments) as far as redact leaves them; nil leaves them as they
// are. They are cut to 16 KiB. They may hold secrets, so that by default they are
// recorded only if OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is true.
func WithArguments(redact Redactor) Option {
	return optionFunc(func(c *config) { c.payloads.arguments, c.payloads.chosen = orWhole(redact), true })
}

// WithResults is [WithArguments] for the results of tools (gen_ai.tool.call.result).
func WithResults(redact Redactor) Option {
	return optionFunc(func(c *config) { c.payloads.results, c.payloads.chosen = orWhole(redact), true })
}

// captureContent is the variable by which the conventions for generative AI turn
// recording of contents on.
const captureContent = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// payloads says what of the calls of tools is recorded; nil is nothing.
type payloads struct {
	arguments, results Redactor
	chosen             bool // by an option
}

// orEnvironment returns what the environment says where no option does.
func (p payloads) orEnvironment() payloads {
	if !p.chosen && environment.IsTrue(captureContent) {
		return payloads{arguments: whole, results: whole}
	}
	return p
}

func orWhole(redact Redactor) Redactor {
	if redact == nil {
		return whole
	}
	return redact
}

func whole(_ string, value jsontext.Value) jsontext.Value { return value }

// maxPayload bounds what a call puts on its span, in bytes.
const maxPayload = 16 << 10

// record puts a payload on the span, as far as redact leaves it.
func (op *Operation) record(key attribute.Key, redact Redactor, value jsontext.Value) {
	defer func() {
		if v := recover(); v != nil {
			op.series.tel.panicked("redactor", v, false)
			op.series.tel.complain("telemetry.redactor", "attribute", string(key), "panic", fmt.Sprint(v))
		}
	}()
	if left := redact(op.series.key.target, value); len(left) > 0 {
		op.span.SetAttributes(key.String(logline.Printable(string(left), maxPayload)))
	}
}

// recordArguments puts the arguments of a registered tool on the span.
func (op *Operation) recordArguments(info *Info) {
	redact := op.series.tel.payloads.arguments
	if redact != nil && info.Method == mcp.MethodToolsCall && op.series.key.target != "" && len(info.Arguments) > 0 {
		op.record(keyArguments, redact, info.Arguments)
	}
}
