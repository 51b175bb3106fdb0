package telemetry

import (
	"slices"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// other is the value of a label whose real value is not in its closed set.
const other = "_OTHER"

// closed returns a label with a closed set of values. Series have all of them from the start.
func closed[S ~string](name, attribute string, values []S) Label {
	return Label{Name: name, Attribute: attribute, Values: stringsOf(values)}
}

// opened returns a label whose values are described in words. first are those that series have
// from the start.
func opened(name, attribute, words string, first ...string) Label {
	return Label{Name: name, Attribute: attribute, Open: words, first: first}
}

// What labels have that are of no closed set: never anything from the wire.
const openMethods = "the protocol's methods and notifications, those that the program has registered, and `_OTHER`"

func method() Label { return opened("mcp_method_name", string(keyMethod), openMethods) }

func ourMethod(first ...string) Label {
	return opened("method", string(keyMethod), openMethods, first...)
}

// target is the registered tool, or prompt, of a request.
func target(first ...string) Label {
	return opened("tool", string(keyToolName), "registered tools and prompts, or none", first...)
}

func cause() Label { return closed("cause", string(keyCancelCause), mcp.Causes()) }

func lossReason() Label {
	return closed("reason", "vitrine.telemetry.reason", []string{lostQueueFull, lostExportFailed})
}

// transport is the transport of a connection, with the values that series have from the start.
func transport(first ...string) Label {
	l := closed("transport", "vitrine.transport", transports())
	l.first = first
	return l
}

// taskStatus is the status of a task, with the values that series have from the start.
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

func statusCode() Label {
	return Label{Name: "rpc_response_status_code", Attribute: string(keyStatusCode), Values: orNone(codeLabels()), first: none}
}

// none is the value of a label that says nothing.
var none = []string{""}

// orNone lists values behind none.
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
func networkProtocols() []string  { return []string{"", "http"} }
func networkVersions() []string   { return []string{"", "1.0", "1.1", "2", "3"} }

// bounded returns the value of a label that is one of the known ones, or else other.
func bounded(value string, known []string) string {
	if slices.Contains(known, value) {
		return value
	}
	return other
}

// ownTransports are those of this module.
func ownTransports() []string { return []string{"http", "stdio", "memory"} }

func transports() []string { return append(ownTransports(), other) }

// transportLabel bounds the name of a transport: programs bring their own.
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

// notificationLabel bounds the method of a notification, which may be anything on the
// wire.
func notificationLabel(method string) string {
	return bounded(method, []string{
		mcp.NotificationCancelled, mcp.NotificationInitialized, mcp.NotificationProgress, mcp.NotificationRootsListChanged,
	})
}

func ignoredKinds() []mcp.IgnoredKind {
	return []mcp.IgnoredKind{mcp.IgnoredCancel, mcp.IgnoredResponse, mcp.IgnoredFrame}
}

// ignoredPairs pairs each kind with its own reasons.
func ignoredPairs() (pairs [][]string) {
	for _, kind := range ignoredKinds() {
		for _, reason := range mcp.IgnoreReasons(kind) {
			pairs = append(pairs, []string{string(kind), string(reason)})
		}
	}
	return pairs
}

// ignoreReasons lists the reasons of all kinds, each once.
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

// operationBuckets are the bounds that the conventions fix.
func operationBuckets() []float64 {
	return []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
}

func latencyBuckets() []float64 {
	return []float64{0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60}
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
