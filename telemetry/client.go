package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Asked implements [session.Observer]: a request to the client is a span of kind
// CLIENT, whose context travels in its _meta.
func (o *observer) Asked(
	ctx context.Context, s *session.Session, method string, params []byte,
) ([]byte, func(id mcp.ID, err error)) {
	begin := o.now()
	ctx, span := o.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(begin))
	if span.IsRecording() {
		span.SetAttributes(askAttributes(s, method)...)
	}
	carrier := propagation.MapCarrier{}
	o.propagator.Inject(ctx, carrier)
	params = wire.SetMeta(params, carrier)
	return params, func(id mcp.ID, err error) {
		errorType, code := askError(err)
		o.measureAsk(s, method, errorType, code, o.now().Sub(begin), span)
		if span.IsRecording() {
			endAsk(span, id, err, errorType)
		}
		span.End(trace.WithTimestamp(o.now()))
	}
}

// askAttributes are the attributes of a request to the client that are known when it is made.
func askAttributes(s *session.Session, method string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{keyMethod.String(method)}
	if s.ID() != "" {
		attrs = append(attrs, keySessionID.String(s.ID()))
	}
	if p := s.Peer(); p != nil {
		attrs = append(attrs, keyProtocolVersion.String(session.Printable(string(p.Version), maxName)))
	}
	return appendConn(attrs, s.Conn(), peerIsServer)
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
	span.SetStatus(codes.Error, session.Printable(message, maxText))
}

// Values of error.type of requests to clients, beside the client's code and the cause
// of a cancellation.
const (
	askTimeout     = "timeout"
	askPeerGone    = "peer_gone"
	askRequestDone = "request_done"
)

// askError returns the value of error.type for the end of a request to the client, and
// the client's error code, as labels of closed sets.
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
	if limit, ok := mcp.AsError(err); ok { // it was never sent
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

// askErrorTypes lists what askError returns.
func askErrorTypes() []string {
	types := append(codeLabels(), askTimeout, askPeerGone, askRequestDone)
	return append(types, stringsOf(mcp.Causes())...)
}

// askMethods lists the methods by which a server asks.
func askMethods() []string {
	return []string{mcp.MethodElicitationCreate, mcp.MethodSamplingCreateMessage, mcp.MethodRootsList, mcp.MethodPing}
}

func (o *observer) measureAsk(
	s *session.Session, method, errorType, code string, took time.Duration, span trace.Span,
) {
	var version mcp.Version
	if p := s.Peer(); p != nil {
		version = p.Version
	}
	n := networkOf(s.Conn())
	observe(o.metrics.client.WithLabelValues(method, errorType, code, versionLabel(version), n.transport, n.protocol, n.version),
		took.Seconds(), exemplarOf(span.SpanContext()))
}
