package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// addSpan adds what only the span of the request shows. The span is recorded and ends with the record.
func (k *record) addSpan(op *Operation, info *Info, out *Outcome) {
	t := op.series.tel
	texts := &t.recent.texts
	k.parent = op.parent()
	k.network, k.protocol, k.protocolVersion = texts.of(info.Network), texts.of(info.Protocol), texts.of(info.ProtocolVersion)
	k.uri, k.inSession = clip(info.URI, maxText), info.SessionID != ""
	k.late = info.Method == mcp.MethodInitialize && op.tracked() == nil
	if info.Principal != nil {
		k.user = texts.of(logline.Printable(t.user(info.Principal), maxText))
	}
	if refusal, ok := out.refusal(); ok {
		k.refusalReason, k.refusalBy = clip(refusal.Reason, maxRefusalText), clip(refusal.By, maxRefusalText)
	}
	if n := k.notes; n != nil && n.journal != nil {
		k.journal = n.journal.copy()
		bare := *n
		bare.journal = nil
		k.notes = &bare
	}
}

// since implements [heldSpan]: it returns the span of the request.
func (k *record) since(arrived time.Time) report.Span {
	row := report.Span{
		SpanID: k.spanID.String(), Name: clip(k.series.spanName, maxText), Kind: trace.SpanKindServer.String(),
		AfterSeconds: k.arrived.Sub(arrived).Seconds(), Seconds: k.whole.Seconds(), Attributes: k.attributes(),
	}
	if k.parent.IsValid() {
		row.Parent = k.parent.String()
	}
	status := codes.Unset
	if j := k.journal; j != nil {
		status, row.StatusText = j.status, j.statusText
		row.Events = j.eventsSince(arrived)
		if j.name != "" {
			row.Name = j.name
		}
	}
	if k.errorType != "" && status <= codes.Error {
		status, row.StatusText = codes.Error, k.errorMessage
	}
	row.Status = status.String()
	return row
}

// attributes returns the attributes of the span in the order in which they were set.
func (k *record) attributes() []report.Attribute {
	var list []report.Attribute
	add := func(attrs []attribute.KeyValue) {
		for _, kv := range attrs {
			list = setShown(list, shownAttribute(kv))
		}
	}
	add(k.series.attributes)
	add(k.atArrival())
	if n := k.notes; n != nil && n.effect != "" {
		add(appendText([]attribute.KeyValue{keyPolicyEffect.String(n.effect)}, keyPolicyRule, n.rule))
	}
	if k.journal != nil {
		for _, a := range k.journal.attributes {
			list = setShown(list, a)
		}
	}
	add(k.atEnd())
	if k.late {
		add(k.peer(nil))
	}
	return list
}

// atArrival returns the attributes that were known when the request arrived; see [Telemetry.messageAttributes].
func (k *record) atArrival() []attribute.KeyValue {
	attrs := appendText(nil, keyRequestID, k.requestID)
	attrs = appendText(attrs, keyResourceURI, k.uri)
	if k.inSession && !k.late {
		attrs = appendText(attrs, keySessionID, k.session)
	}
	attrs = appendConn(attrs, &Info{
		Network: k.network, Protocol: k.protocol, ProtocolVersion: k.protocolVersion, RemoteAddr: k.remote,
	}, keyClientAddress, keyClientPort)
	attrs = appendText(appendText(attrs, keyVia, k.through().via), keyForwardedFor, k.through().forwardedFor)
	attrs = appendText(attrs, keyUser, k.user)
	attrs = appendText(attrs, keyTenant, k.tenant)
	if k.late {
		return attrs
	}
	return k.peer(attrs)
}

// peer appends the client's protocol revision, name and version.
func (k *record) peer(attrs []attribute.KeyValue) []attribute.KeyValue {
	attrs = appendText(attrs, keyProtocolVersion, k.version)
	return appendText(appendText(attrs, keyClientName, k.client), keyClientVersion, k.clientVersion)
}

// atEnd returns the attributes of the outcome; see [Outcome.attributes].
func (k *record) atEnd() []attribute.KeyValue {
	attrs := appendText(nil, keyErrorType, k.errorType)
	if k.failed {
		attrs = append(attrs, keyStatusCode.String(codeString(k.errorCode)))
	}
	attrs = appendText(attrs, keyRejectReason, string(k.rejected))
	attrs = appendText(appendText(attrs, keyRefusalReason, k.refusalReason), keyRefusalBy, k.refusalBy)
	attrs = appendText(attrs, keyCancelCause, string(k.cause))
	attrs = appendText(attrs, keyOutcome, string(k.fate))
	attrs = appendText(attrs, keyDropReason, string(k.dropped))
	if k.started != 0 {
		attrs = append(attrs, keyQueueWait.Float64(k.started.Seconds()))
	}
	return appendStages(attrs, k.stages)
}

// shownAttribute returns an attribute as pages show it.
func shownAttribute(kv attribute.KeyValue) report.Attribute {
	return report.Attribute{Key: clip(string(kv.Key), maxName), Value: clip(kv.Value.String(), maxText)}
}

// setShown sets an attribute in a list of at most maxSpanAttributes.
func setShown(list []report.Attribute, a report.Attribute) []report.Attribute {
	for i := range list {
		if list[i].Key == a.Key {
			list[i] = a
			return list
		}
	}
	if len(list) < maxSpanAttributes {
		list = append(list, a)
	}
	return list
}
