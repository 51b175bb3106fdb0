package adapt

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Params are the members of a request's params that all servers know.
type Params struct {
	Target    string         // as it was sent: the name, the URI or the id of a task
	Arguments jsontext.Value // of a tool call
	Version   mcp.Version    // "" if the request does not say it: it is a legacy one
	Carrier   propagation.TextMapCarrier
}

// ReadParams reads them. What is not there, or is ill-typed, is left out.
func ReadParams(method string, raw jsontext.Value) Params {
	var p struct {
		Name      jsontext.Value            `json:"name"`
		URI       jsontext.Value            `json:"uri"`
		TaskID    jsontext.Value            `json:"taskId"`
		Arguments jsontext.Value            `json:"arguments"`
		Meta      map[string]jsontext.Value `json:"_meta"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &p) != nil {
		return Params{}
	}
	read := Params{Version: mcp.Version(text(p.Meta[mcp.MetaProtocolVersion]))}
	switch mcp.NameMember(method) {
	case "name":
		read.Target = text(p.Name)
	case "uri":
		read.Target = text(p.URI)
	case "taskId":
		read.Target = text(p.TaskID)
	}
	if method == mcp.MethodToolsCall {
		read.Arguments = p.Arguments
	}
	carrier := propagation.MapCarrier{}
	for _, key := range []string{mcp.MetaTraceParent, mcp.MetaTraceState, mcp.MetaBaggage} {
		if value := text(p.Meta[key]); value != "" {
			carrier[key] = value
		}
	}
	if len(carrier) > 0 {
		read.Carrier = carrier
	}
	return read
}

// text returns the text of a JSON string, and "" for anything else.
func text(raw jsontext.Value) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
