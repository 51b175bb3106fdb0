package adapt

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Params has the common members of a request's params.
type Params struct {
	Target    string         // the name, the URI or the id of a task, as the client sent it
	Arguments jsontext.Value // of a tool call
	Version   mcp.Version    // "" for a legacy request
	trace     carrier        // the trace context
}

// ReadParams reads params. It ignores members with a wrong type. It returns false if another decoder may
// read something else: the params are not valid, or have two members of one name.
func ReadParams(method string, raw jsontext.Value) (Params, bool) { return readParams(method, raw) }

// ReadDecoded reads params that an SDK has decoded and that were encoded again. Their names are those that
// the SDK uses. It returns false if the arguments of a tool call, which SDKs keep as they came, have two
// members of one name or are not valid: the handler may read other arguments than a policy.
func ReadDecoded(method string, raw jsontext.Value) (p Params, agreed bool) {
	if p, agreed = ReadParams(method, raw); !agreed {
		p, _ = readParams(method, raw, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	}
	return p, agreed
}

func readParams(method string, raw jsontext.Value, options ...json.Options) (Params, bool) {
	var p struct {
		Name      jsontext.Value `json:"name"`
		URI       jsontext.Value `json:"uri"`
		TaskID    jsontext.Value `json:"taskId"`
		Arguments jsontext.Value `json:"arguments"`
		Meta      jsontext.Value `json:"_meta"`
	}
	if len(raw) == 0 {
		return Params{}, true
	}
	if json.Unmarshal(raw, &p, options...) != nil {
		return Params{}, false
	}
	read := Params{Version: mcp.Version(text(jsonvalue.Member(p.Meta, mcp.MetaProtocolVersion)))}
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
	read.trace = carrier{}
	for _, key := range []string{mcp.MetaTraceParent, mcp.MetaTraceState, mcp.MetaBaggage} {
		if value := text(jsonvalue.Member(p.Meta, key)); value != "" {
			read.trace[key] = value
		}
	}
	return read, true
}

// text returns the text of a JSON string, and "" for anything else.
func text(raw jsontext.Value) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// A carrier is a trace context for package telemetry.
type carrier map[string]string

// Get returns the value of a key.
func (c carrier) Get(key string) string { return c[key] }

// Set does nothing.
func (carrier) Set(string, string) {}

// Keys lists the keys.
func (c carrier) Keys() []string { return slices.Collect(maps.Keys(c)) }

// ParseID reads an id of JSON-RPC from JSON. It returns zero if raw is no id.
func ParseID(raw jsontext.Value) mcp.ID {
	if len(raw) == 0 {
		return mcp.ID{}
	}
	var unquoted []byte
	if raw.Kind() == '"' {
		var err error
		if unquoted, err = jsontext.AppendUnquote(nil, raw); err != nil {
			return mcp.ID{}
		}
	}
	id, err := mcp.ParseID(string(raw), string(unquoted))
	if err != nil {
		return mcp.ID{}
	}
	return id
}
