package e2e

import (
	"encoding/json"
	"testing"
)

const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"

	codeParse            = -32700
	codeInvalidRequest   = -32600
	codeMethodNotFound   = -32601
	codeInvalidParams    = -32602
	codeInternal         = -32603
	codeResourceNotFound = -32002
	codeHeaderMismatch   = -32020
	codeVersion          = -32022
)

// object is a JSON object.
type object map[string]any

// A request is a JSON-RPC request of the modern era, or a notification if it has no id.
type request struct {
	id     any
	method string
	params object
	meta   object // merged into params._meta
	// legacy leaves out the members of the modern era.
	legacy bool
}

// call is a call of a tool.
func call(id any, tool string, arguments object) request {
	return request{id: id, method: "tools/call", params: object{"name": tool, "arguments": arguments}}
}

// inLegacy turns a request into one of the legacy era.
func (r request) inLegacy() request {
	r.legacy = true
	return r
}

// with adds a key of _meta.
func (r request) with(key string, value any) request {
	meta := object{key: value}
	for k, v := range r.meta {
		meta[k] = v
	}
	r.meta = meta
	return r
}

// frame is the request as it is sent, without a line's end.
func (r request) frame() string {
	params, meta := object{}, object{}
	for k, v := range r.params {
		params[k] = v
	}
	if !r.legacy {
		meta["io.modelcontextprotocol/protocolVersion"] = modernVersion
		meta["io.modelcontextprotocol/clientCapabilities"] = object{}
		meta["io.modelcontextprotocol/clientInfo"] = object{"name": "raw", "version": "0.1"}
	}
	for k, v := range r.meta {
		meta[k] = v
	}
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	message := object{"jsonrpc": "2.0", "method": r.method, "params": params}
	if r.id != nil {
		message["id"] = r.id
	}
	return encode(message)
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a mistake in a test
	}
	return string(b)
}

// A message is a message of the server.
type message struct {
	raw    string
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProgressToken any     `json:"progressToken"`
		Progress      float64 `json:"progress"`
	} `json:"params"`
	Result *struct {
		IsError           bool                    `json:"isError"`
		Content           []struct{ Text string } `json:"content"`
		StructuredContent json.RawMessage         `json:"structuredContent"`
		ProtocolVersion   string                  `json:"protocolVersion"`
		Tools             []struct{ Name string } `json:"tools"`
	} `json:"result"`
	Error *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func decode(t *testing.T, frame string) (m message) {
	t.Helper()
	if err := json.Unmarshal([]byte(frame), &m); err != nil {
		t.Fatalf("the server sent %q: %v", frame, err)
	}
	m.raw = frame
	return m
}

// String is the message as it came.
func (m message) String() string { return m.raw }

// text is the text of a tool's result.
func (m message) text() string {
	if m.Result == nil || len(m.Result.Content) == 0 {
		return ""
	}
	return m.Result.Content[0].Text
}

// code is the code of an error; 0 for a result.
func (m message) code() int {
	if m.Error == nil {
		return 0
	}
	return m.Error.Code
}
