package telemetry

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/attribute"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// maxPayload bounds the arguments and the result on a span, in bytes.
const maxPayload = 16 << 10

// record puts a payload on the span, after redact.
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
