package telemetry

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/attribute"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// seriesAttributes returns the attributes that all requests of a series share.
func seriesAttributes(method, target string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{keyMethod.String(method)}
	if method == mcp.MethodToolsCall {
		attrs = append(attrs, keyOperation.String(operationExecuteTool))
	}
	if target != "" {
		key := keyToolName
		if method == mcp.MethodPromptsGet {
			key = keyPromptName
		}
		attrs = append(attrs, key.String(target))
	}
	return attrs
}

// appendText appends an attribute unless its value is empty.
func appendText(attrs []attribute.KeyValue, key attribute.Key, value string) []attribute.KeyValue {
	if value == "" {
		return attrs
	}
	return append(attrs, key.String(value))
}

// appendConn appends the attributes of a connection, and none if it is unknown. The keys say
// whether the peer sent the request (client.address) or received it (server.address).
func appendConn(attrs []attribute.KeyValue, c *Info, addressKey, portKey attribute.Key) []attribute.KeyValue {
	attrs = appendText(attrs, keyTransport, c.Network)
	attrs = appendText(attrs, keyNetworkProtocol, c.Protocol)
	attrs = appendText(attrs, keyNetworkVersion, c.ProtocolVersion)
	host, port, err := net.SplitHostPort(c.RemoteAddr)
	if err != nil {
		host = c.RemoteAddr
	}
	attrs = appendText(attrs, addressKey, host)
	if n, err := strconv.Atoi(port); err == nil {
		attrs = append(attrs, portKey.Int(n))
	}
	return attrs
}

// cancelAttributes returns the attributes of the event of a cancellation.
func cancelAttributes(cause mcp.Cause, detail string) []attribute.KeyValue {
	return appendText([]attribute.KeyValue{keyCancelCause.String(string(cause))}, keyCancelDetail, detail)
}

// abandonAttributes returns the attributes of the event that a handler was abandoned. The cause
// is missing if a drain could not cancel the handler.
func abandonAttributes(out *Outcome) []attribute.KeyValue {
	return appendText(nil, keyCancelCause, string(out.cause()))
}

// panicAttributes returns the attributes of the event of a panic. A nil value is a runtime.Goexit.
func panicAttributes(value any, stack []byte) []attribute.KeyValue {
	kind, text := describePanic(value)
	return []attribute.KeyValue{
		keyExceptionType.String(kind), keyExceptionMessage.String(text), keyExceptionStacktrace.String(string(stack)),
	}
}

// describePanic names the value of a panic. A nil value is a runtime.Goexit.
func describePanic(value any) (kind, text string) {
	if value == nil {
		return "runtime.Goexit", "the handler has ended its goroutine"
	}
	return fmt.Sprintf("%T", value), fmt.Sprint(value)
}

// errorAttributes describes an error by the convention for exceptions.
func errorAttributes(err error) []attribute.KeyValue {
	return []attribute.KeyValue{
		keyExceptionType.String(fmt.Sprintf("%T", err)), keyExceptionMessage.String(logline.Printable(err.Error(), maxURI)),
	}
}

// attributes appends the attributes of a request at its end.
func (o *Outcome) attributes(attrs []attribute.KeyValue, errorType string) []attribute.KeyValue {
	attrs = appendText(attrs, keyErrorType, errorType)
	if o.Err != nil {
		attrs = append(attrs, keyStatusCode.String(codeString(o.Err.Code)))
	}
	attrs = appendText(attrs, keyRejectReason, string(o.Rejected))
	if refusal, ok := o.refusal(); ok {
		attrs = appendText(attrs, keyRefusalReason, logline.Printable(refusal.Reason, maxRefusalText))
		attrs = appendText(attrs, keyRefusalBy, logline.Printable(refusal.By, maxRefusalText))
	}
	attrs = appendText(attrs, keyCancelCause, string(o.cause()))
	attrs = appendText(attrs, keyOutcome, string(o.Fate))
	return appendText(attrs, keyDropReason, string(o.Dropped))
}

// refusal returns the refusal that became the error of the request.
func (o *Outcome) refusal() (*mcp.Refusal, bool) {
	if o.Err == nil {
		return nil, false
	}
	return mcp.AsRefusal(o.Err)
}

// clip copies a peer's text, makes it printable and cuts it. The copy does not hold the rest of
// the peer's frame in memory.
func clip(text string, limit int) string { return strings.Clone(logline.Printable(text, limit)) }

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

// appendPrincipal appends the attributes of a principal. p may be nil.
func (t *Telemetry) appendPrincipal(attrs []attribute.KeyValue, p *auth.Principal) []attribute.KeyValue {
	if p == nil {
		return attrs
	}
	attrs = append(attrs, keyUser.String(logline.Printable(t.user(p), maxText)))
	return appendText(attrs, keyTenant, logline.Printable(p.Tenant, maxName))
}

// user returns what spans show of a principal: its subject, or a pseudonym.
func (t *Telemetry) user(p *auth.Principal) string {
	if t.pseudonyms {
		return t.pseudonym(p)
	}
	return p.Subject
}
