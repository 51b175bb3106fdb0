package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Ask records a request of the server to its client. It starts a span of kind CLIENT. info
// describes the session; [Info.Method] is the method of the request. ctx is the context of the
// handler that asks.
//
// Ask returns the entries for the _meta of the request, so that the client's spans become
// children of this span, and a function that the caller must call when the wait ends. id is the
// zero value if the request was not sent.
func (t *Telemetry) Ask(ctx context.Context, info Info) (meta map[string]string, end func(id mcp.ID, err error)) {
	if !t.Enabled() {
		return nil, func(mcp.ID, error) {}
	}
	begin := t.now()
	ctx, span := t.startSpan(ctx, info.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(begin))
	if span.IsRecording() {
		span.SetAttributes(askAttributes(&info)...)
	}
	carrier := propagation.MapCarrier{}
	t.propagator.Inject(ctx, carrier)
	method, wire := info.Method, info.wire()
	key := questionKey{method: method}
	key.client, key.version = info.client(t.clients)
	return carrier, func(id mcp.ID, err error) {
		errorType, code := askError(err)
		if !id.IsZero() {
			t.questions.ended(key, err, errorType)
			t.count(MetricQuestionsAsked, method)
			if answered(err) {
				t.count(MetricQuestionsAnswered, method)
			}
		}
		n := wire.network
		observe(t.metrics.histogram(MetricClientDuration, method, errorType, code, wire.label, n.transport, n.protocol, n.version),
			t.now().Sub(begin).Seconds(), span.SpanContext())
		if span.IsRecording() {
			endAsk(span, id, err, errorType)
		}
		span.End(trace.WithTimestamp(t.now()))
	}
}

// askAttributes returns the attributes of a request to the client when it is made.
func askAttributes(info *Info) []attribute.KeyValue {
	attrs := appendText([]attribute.KeyValue{keyMethod.String(info.Method)}, keySessionID, info.spanSession())
	attrs = appendText(attrs, keyProtocolVersion, logline.Printable(string(info.Version), maxName))
	return appendConn(attrs, info, keyServerAddress, keyServerPort)
}

func endAsk(span trace.Span, id mcp.ID, err error, errorType string) {
	if !id.IsZero() {
		span.SetAttributes(keyRequestID.String(id.String()))
	}
	if err == nil {
		return
	}
	span.SetAttributes(keyErrorType.String(errorType))
	message := err.Error()
	if refused := (*mcp.ClientError)(nil); errors.As(err, &refused) {
		span.SetAttributes(keyStatusCode.String(codeString(refused.Code)))
		message = refused.Message
	}
	if cause, cancelled := causeOf(err); cancelled {
		span.SetAttributes(keyCancelCause.String(string(cause)))
	}
	span.SetStatus(codes.Error, logline.Printable(message, maxText))
}

// askError returns error.type for the end of a request to the client, and the client's error
// code. Both are label values of closed sets.
func askError(err error) (errorType, code string) {
	refused := (*mcp.ClientError)(nil)
	cause, cancelled := causeOf(err)
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &refused):
		code = codeLabel(refused.Code)
		return code, code
	case cancelled:
		return string(cause), ""
	case errors.Is(err, context.DeadlineExceeded):
		return askTimeout, ""
	case errors.Is(err, mcp.ErrPeerGone):
		return askPeerGone, ""
	case errors.Is(err, mcp.ErrRequestDone):
		return askRequestDone, ""
	}
	if limit, ok := mcp.AsError(err); ok { // it was not sent
		return codeLabel(limit.Code), ""
	}
	return other, ""
}

func causeOf(err error) (mcp.Cause, bool) {
	cancel := (*mcp.CancelError)(nil)
	if errors.As(err, &cancel) {
		return cancel.Cause, true
	}
	return "", false
}
