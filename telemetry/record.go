package telemetry

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// RecordError adds to the span an error of the handler that the caller will not
// see: anything but a [*mcp.Error] is answered as "internal error". An error that
// only reports the cancellation of the request is left out.
func RecordError(r *session.Request, err error) {
	ob := observationOf(r)
	if ob == nil || !ob.recording {
		return
	}
	if _, public := mcp.AsError(err); public {
		return
	}
	if cancel, _ := r.Cancellation(); cancel != nil && cancel.Is(err) {
		return
	}
	ob.hidden(err)
}

// RecordEncoding adds to the span that the handler's result cannot be encoded, which the
// caller sees as "internal error" whatever the error is.
func RecordEncoding(r *session.Request, err error) {
	if ob := observationOf(r); ob != nil && ob.recording {
		ob.hidden(err)
	}
}

// hidden adds to the span an error that the caller does not see.
func (ob *observation) hidden(err error) { ob.event(eventException, exceptionOf(err)...) }

// exceptionOf describes an error as the convention for exceptions has it.
func exceptionOf(err error) []attribute.KeyValue {
	return []attribute.KeyValue{
		keyExceptionType.String(fmt.Sprintf("%T", err)), keyExceptionMessage.String(session.Printable(err.Error(), maxURI)),
	}
}

// RecordLog adds to the span a message that the handler has logged: its level, the
// logger if it has a name, and the text, cut to 256 bytes. How many events a span
// keeps is the SDK's limit (OTEL_SPAN_EVENT_COUNT_LIMIT).
func RecordLog(r *session.Request, level mcp.LoggingLevel, logger, text string) {
	ob := observationOf(r)
	if ob == nil || !ob.recording {
		return
	}
	attrs := []attribute.KeyValue{keyLogLevel.String(string(level)), keyLogMessage.String(session.Printable(text, maxText))}
	if logger != "" {
		attrs = append(attrs, keyLogLogger.String(session.Printable(logger, maxName)))
	}
	ob.event(eventLog, attrs...)
}

// RecordValidation records how long it took to validate the arguments of a call against
// its tool's schema.
func RecordValidation(r *session.Request, took time.Duration) {
	if ob := observationOf(r); ob != nil {
		ob.series.validations().took.Observe(took.Seconds())
	}
}

// RecordRejection records that the arguments of a call break its tool's schema, so that
// the handler is not called: the answer is a tool error like those of the handler. faults
// says what is wrong, without any value from the arguments; it is cut to 256 bytes.
func RecordRejection(r *session.Request, faults string) {
	ob := observationOf(r)
	if ob == nil {
		return
	}
	increment(ob.series.validations().rejected, ob.exemplar())
	short := kept(faults, maxText)
	ob.argumentFaults.Store(&short)
	ob.event(eventRejected, keyArgumentFaults.String(short))
}
