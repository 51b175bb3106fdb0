package telemetry

import (
	"slices"

	"github.com/vitrine-mcp/vitrine/mcp"
)

func method() Label {
	return Label{Name: "mcp_method_name", Attribute: string(keyMethod), Open: openMethods}
}

func ourMethod() Label { return Label{Name: "method", Attribute: string(keyMethod), Open: openMethods} }

// target is the registered tool, or prompt, of a request.
func target() Label {
	return Label{Name: "tool", Attribute: string(keyToolName), Open: "registered tools and prompts, or none"}
}

func transport() Label {
	return Label{Name: "transport", Attribute: "vitrine.transport", Values: transports()}
}

func errorType() Label {
	return Label{Name: "error_type", Attribute: string(keyErrorType), Values: append([]string{""}, errorTypes()...)}
}

func network() []Label {
	versions := []string{"", other}
	for _, era := range []mcp.Era{mcp.Modern, mcp.Legacy} {
		versions = append(versions, stringsOf(mcp.Versions(era))...)
	}
	return []Label{
		{Name: "mcp_protocol_version", Attribute: string(keyProtocolVersion), Values: versions},
		{Name: "network_transport", Attribute: string(keyTransport), Values: []string{"", "tcp", "quic", "pipe", other}},
		{Name: "network_protocol_name", Attribute: string(keyNetworkProtocol), Values: []string{"", "http", other}},
		{Name: "network_protocol_version", Attribute: string(keyNetworkVersion), Values: []string{"", "1.0", "1.1", "2", "3", other}},
	}
}

// ownTransports are those of this module.
func ownTransports() []string { return []string{"http", "stdio", "memory"} }

func transports() []string { return append(ownTransports(), other) }

// transportLabel bounds the name of a transport: programs bring their own.
func transportLabel(name string) string {
	if slices.Contains(ownTransports(), name) {
		return name
	}
	return other
}

func ignoredKinds() []mcp.IgnoredKind {
	return []mcp.IgnoredKind{mcp.IgnoredCancel, mcp.IgnoredResponse, mcp.IgnoredFrame}
}

// ignoreReasons lists the reasons of all kinds, each once.
func ignoreReasons() []string {
	var all []string
	seen := map[mcp.IgnoreReason]bool{}
	for _, kind := range ignoredKinds() {
		for _, reason := range mcp.IgnoreReasons(kind) {
			if !seen[reason] {
				seen[reason] = true
				all = append(all, string(reason))
			}
		}
	}
	return all
}

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
