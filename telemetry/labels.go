package telemetry

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// closed returns a label with a closed set of values. From the start there are series with all of them.
func closed[S ~string](name, attribute string, values []S) Label {
	return Label{Name: name, Attribute: attribute, Values: stringsOf(values)}
}

// opened returns a label whose values are described in words. From the start there are series
// with the values first.
func opened(name, attribute, words string, first ...string) Label {
	return Label{Name: name, Attribute: attribute, Open: words, first: first}
}

// openMethods describes the values of labels with a method. They never come from the wire.
const openMethods = "the protocol's methods and notifications, those that the program has registered, and `_OTHER`"

func method() Label { return opened("mcp_method_name", string(keyMethod), openMethods) }

func ourMethod(first ...string) Label {
	return opened("method", string(keyMethod), openMethods, first...)
}

// target is the label with the registered tool or prompt of a request.
func target(first ...string) Label {
	return opened("tool", string(keyToolName), "registered tools and prompts, or none", first...)
}

// auditSink is the label of metrics of the audit. There are none without an audit.
func auditSink() Label { return opened("sink", "vitrine.audit.sink", "sinks of the audit") }

// sharedLimit is the label with the name of a limit that callers share.
func sharedLimit() Label {
	return opened("limit", "vitrine.limit", "the shared limits of docs/limits.md, and class:NAME of each class of the program")
}

// class is the label with the name of a concurrency class.
func class(first ...string) Label {
	return opened("class", "vitrine.class", "the concurrency classes of the program, at most 64 in histograms, or none", first...)
}

// memoryPart is the label with one part of the memory of a process.
func memoryPart() Label {
	var names []string
	for _, p := range limits.Parts() {
		names = append(names, p.Name)
	}
	l := closed("part", "vitrine.memory.part", names)
	l.first = []string{}
	return l
}

// Values of the label state of [MetricShareCallers].
const (
	shareHolding = "holding"
	shareWaiting = "waiting"
)

// rateLimit is the label with the name of a rate limit.
func rateLimit() Label {
	return opened("limit", "vitrine.limit", "the rate limits of the program, at most 64")
}

// Values of the label decision of [MetricRateLimitMessages].
const (
	rateAllowed = "allowed"
	rateRefused = "refused"
)

func cause() Label { return closed("cause", string(keyCancelCause), mcp.Causes()) }

// cancelPhase is the label with the phase in which a request was cancelled.
func cancelPhase() Label {
	l := closed("phase", "vitrine.cancel.phase", session.CancelPhases())
	l.first = []string{phaseQueued, phaseRunning}
	return l
}

func lossReason() Label {
	return closed("reason", "vitrine.telemetry.reason", []string{lostQueueFull, lostExportFailed})
}

// transport is the label with the transport of a connection. From the start there are series with
// the values first, and with all values if there is no first.
func transport(first ...string) Label {
	l := closed("transport", "vitrine.transport", transports())
	l.first = first
	return l
}

// taskStatus is the label with the status of a task; for first see transport.
func taskStatus(first ...string) Label {
	l := closed("status", string(keyTaskStatus), mcp.TaskStatuses())
	l.first = first
	return l
}

func terminalStatuses() []string {
	return stringsOf(slices.DeleteFunc(mcp.TaskStatuses(), func(s mcp.TaskStatus) bool { return !s.Terminal() }))
}

func errorType() Label {
	return Label{Name: "error_type", Attribute: string(keyErrorType), Values: orNone(errorTypes()), first: []string{}}
}

// endType is error_type of the durations of operations. It also has the causes of cancellations that are
// no errors of the service.
func endType() Label {
	l := errorType()
	for _, c := range mcp.Causes() {
		if !c.Fault() {
			l.Values = append(l.Values, string(c))
		}
	}
	return l
}

func statusCode() Label {
	return Label{Name: "rpc_response_status_code", Attribute: string(keyStatusCode), Values: orNone(codeLabels()), first: none}
}

// none lists the empty value.
var none = []string{""}

// orNone returns the empty value and then the values.
func orNone(values []string) []string { return append([]string{""}, values...) }

func network() []Label {
	versions := []string{"", other}
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		versions = append(versions, stringsOf(mcp.Versions(era))...)
	}
	return []Label{
		{Name: "mcp_protocol_version", Attribute: string(keyProtocolVersion), Values: versions, first: none},
		{Name: "network_transport", Attribute: string(keyTransport), Values: append(networkTransports(), other), first: none},
		{Name: "network_protocol_name", Attribute: string(keyNetworkProtocol), Values: append(networkProtocols(), other), first: none},
		{Name: "network_protocol_version", Attribute: string(keyNetworkVersion), Values: append(networkVersions(), other), first: none},
	}
}

func networkTransports() []string { return []string{"", "tcp", "quic", "pipe"} }

func networkProtocols() []string { return []string{"", "http"} }

func networkVersions() []string { return []string{"", "1.0", "1.1", "2", "3"} }

// bounded returns value if it is one of known, and other if not.
func bounded(value string, known []string) string {
	if slices.Contains(known, value) {
		return value
	}
	return other
}

// ownTransports lists the transports of this module.
func ownTransports() []string { return []string{"http", "stdio", "memory"} }

func transports() []string { return append(ownTransports(), other) }

// transportLabel bounds the name of a transport. Programs may bring transports with any name.
func transportLabel(name string) string { return bounded(name, ownTransports()) }

// versionLabel bounds a protocol revision, which may be anything on the wire.
func versionLabel(v mcp.Version) string {
	if v == "" {
		return ""
	}
	if _, supported := v.Era(); supported {
		return string(v)
	}
	return other
}

// notificationLabel bounds the method of a notification, which may be anything on the wire.
func notificationLabel(method string) string {
	return bounded(method, []string{
		mcp.NotificationCancelled, mcp.NotificationInitialized, mcp.NotificationProgress, mcp.NotificationRootsListChanged,
	})
}

func ignoredKinds() []mcp.IgnoredKind {
	return []mcp.IgnoredKind{mcp.IgnoredCancel, mcp.IgnoredResponse, mcp.IgnoredFrame, mcp.IgnoredNotification}
}

// ignoredPairs lists the pairs of a kind and one of its reasons.
func ignoredPairs() (pairs [][]string) {
	for _, kind := range ignoredKinds() {
		for _, reason := range mcp.IgnoreReasons(kind) {
			pairs = append(pairs, []string{string(kind), string(reason)})
		}
	}
	return pairs
}

// ignoreReasons lists the reasons of all kinds without repetitions.
func ignoreReasons() (all []string) {
	for _, pair := range ignoredPairs() {
		if !slices.Contains(all, pair[1]) {
			all = append(all, pair[1])
		}
	}
	return all
}

// Values of the label reason of [MetricSpansDropped] and [MetricLogRecordsDropped].
const (
	lostQueueFull    = "queue_full"
	lostExportFailed = "export_failed"
)

// Values of the label reason of [MetricScrapeFailures].
const (
	scrapeBusy   = "busy"
	scrapeGather = "gather"
	scrapeWrite  = "write"
)

// operationBuckets are the bounds of the OpenTelemetry conventions.
func operationBuckets() []float64 {
	return []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
}

func latencyBuckets() []float64 {
	return []float64{0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60}
}

// disconnectBuckets have the usual time-outs of gateways and clients as bounds, and a second more each, so
// that what is cut at 20 s is alone in the bucket up to 21 s.
func disconnectBuckets() []float64 {
	return []float64{
		1, 2, 5, 6, 10, 11, 15, 16, 20, 21, 30, 31, 45, 46, 60, 61, 90, 91, 100, 101, 120, 121, 180, 181,
		300, 301, 600, 601, 900, 901, 3600, 3601,
	}
}

// sizeBuckets go from a small message to the default limit of a frame.
func sizeBuckets() []float64 {
	return []float64{256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304}
}

func stringsOf[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

// The names of the limits of [Recent] in metrics, documents and answers.
const (
	limitRecentTraces     = "recent_traces"
	limitRecentSpans      = "recent_spans"
	limitRecentTotalSpans = "recent_total_spans"
)

// The classes of recent traces. Each class has its own ring, so that a flood of one class does
// not evict traces of another. A request is in the first class that fits.
const (
	classAbandoned = "abandoned" // the handler ignored its cancelled context
	classPanic     = "panic"
	classCancelled = "cancelled"
	classDropped   = "dropped"      // the answer was not sent, for another reason than a cancellation
	classRejected  = "rejected"     // not admitted
	classError     = "error"        // of the service or of a tool
	classCaller    = "caller_error" // an error that the caller caused
	// A subscription has no duration to compare, and each is told, not one per second.
	classSubscription = "subscription" // it has ended in order
	classSlow         = "slow"         // among the slowest of its method and target
	classRecent       = "recent"       // one per second of each method and target
)

func recentClasses() []string {
	return []string{
		classAbandoned, classPanic, classCancelled, classDropped, classRejected, classError, classCaller,
		classSubscription, classSlow, classRecent,
	}
}

// limitTenants is the name of the limit that [WithTenants] sets.
const limitTenants = "max_tenants"

// limitAudit is the name of the bound of the audit's queues.
const limitAudit = "audit_queue"

// labelTenant is the label of [WithTenants].
const labelTenant = "tenant"

// Values of error.type of requests to clients. The others are codes of the client and causes of
// cancellations.
const (
	askTimeout     = "timeout"
	askPeerGone    = "peer_gone"
	askRequestDone = "request_done"
)

// askErrorTypes lists what askError returns.
func askErrorTypes() []string {
	types := append(codeLabels(), askTimeout, askPeerGone, askRequestDone)
	return append(types, stringsOf(mcp.Causes())...)
}

// askMethods lists the methods of requests to clients.
func askMethods() []string {
	return []string{mcp.MethodElicitationCreate, mcp.MethodSamplingCreateMessage, mcp.MethodRootsList, mcp.MethodPing}
}

// Values of [HandlerIncident.Reason].
const (
	IncidentSlow      = "slow_handler"
	IncidentAbandoned = "abandoned_handler"
)

// Values of error.type that are neither a code nor a cause.
const (
	errorTool         = "tool_error"
	errorWriteTimeout = string(mcp.DropWriteTimeout)
)

// knownCodes lists the error codes of JSON-RPC, MCP and refusals.
func knownCodes() []mcp.Code {
	return []mcp.Code{
		mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeInvalidParams,
		mcp.CodeInternalError, mcp.CodeHeaderMismatch, mcp.CodeMissingRequiredCapability,
		mcp.CodeUnsupportedVersion, mcp.CodeResourceNotFound, mcp.CodeRequestCancelled,
		mcp.CodeURLElicitationRequired,
		mcp.CodeBadRequest, mcp.CodeUnauthorized, mcp.CodeForbidden, mcp.CodeTooManyRequests, mcp.CodeUnavailable,
	}
}

// codeLabels lists the values of rpc_response_status_code.
func codeLabels() []string {
	labels := []string{other}
	for _, c := range knownCodes() {
		labels = append(labels, codeString(c))
	}
	return labels
}

// errorTypes lists the values of error_type.
func errorTypes() []string {
	types := []string{errorTool, errorWriteTimeout, other}
	for _, c := range mcp.Causes() {
		if c.Fault() {
			types = append(types, string(c))
		}
	}
	for _, c := range knownCodes() {
		if !c.CallerFault() {
			types = append(types, codeString(c))
		}
	}
	return types
}

func codeString(c mcp.Code) string { return strconv.Itoa(int(c)) }

// codeTexts has the label values of the known codes.
var codeTexts = func() map[mcp.Code]string {
	texts := map[mcp.Code]string{}
	for _, c := range knownCodes() {
		texts[c] = codeString(c)
	}
	return texts
}()

// codeLabel returns the label value of a code. It does not allocate.
func codeLabel(c mcp.Code) string { return cmp.Or(codeTexts[c], other) }

type networkKey struct{ transport, protocol, version string }

// A Label is one label of a metric.
type Label struct {
	// Name is the name in Prometheus, Attribute the key over OTLP.
	Name, Attribute string
	// Values is the closed set of values. If it is nil, Open describes the values.
	Values []string
	Open   string

	// first are the values for which series exist from the start. nil stands for Values.
	first []string
}
