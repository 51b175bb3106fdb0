package adapt

import (
	"bytes"
	stdjson "encoding/json"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Converted is a result of an SDK in the form for middlewares.
type Converted struct {
	// Result is a result of package mcp. Its type is unexported if package mcp has none for its method.
	Result mcp.Result
	before []byte // Result in JSON; nil if its type is not known
}

// An opaque result is a result of an unknown type.
type opaque struct{ mcp.ResultMeta }

// Convert converts a result of an SDK through JSON.
func Convert(method string, result any) Converted {
	unknown := Converted{Result: &opaque{}}
	data, err := stdjson.Marshal(result)
	if err != nil {
		return unknown // the SDK will return the error
	}
	ours := newResult(method, data)
	if ours == nil || json.Unmarshal(data, ours, withContent) != nil {
		return unknown
	}
	before, err := wire.Marshal(nil, ours)
	if err != nil {
		return unknown
	}
	return Converted{ours, before}
}

// withContent decodes blocks of content, whose type is in the JSON.
var withContent = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *mcp.Content) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	*into, err = mcp.UnmarshalContent(raw)
	return err
}))

// newResult returns an empty result for a method, or nil if its type is not known.
func newResult(method string, data []byte) mcp.Result {
	var kind struct {
		ResultType string `json:"resultType"`
	}
	if json.Unmarshal(data, &kind) == nil && kind.ResultType == "input_required" {
		return &mcp.InputRequiredResult{}
	}
	switch method {
	case mcp.MethodToolsCall:
		return &mcp.CallToolResult{}
	case mcp.MethodToolsList:
		return &mcp.ListToolsResult{}
	case mcp.MethodPromptsGet:
		return &mcp.GetPromptResult{}
	case mcp.MethodPromptsList:
		return &mcp.ListPromptsResult{}
	case mcp.MethodResourcesRead:
		return &mcp.ReadResourceResult{}
	case mcp.MethodResourcesList:
		return &mcp.ListResourcesResult{}
	case mcp.MethodResourcesTemplatesList:
		return &mcp.ListResourceTemplatesResult{}
	case mcp.MethodCompletionComplete:
		return &mcp.CompleteResult{}
	}
	return nil
}

// errUnknownResult is the error for a result that cannot be converted back.
var errUnknownResult = errors.New("a middleware has returned nil, or changed a result that it cannot know")

// Changed returns the result of the middlewares in JSON. It returns nil if they did not change the
// result. typed says whether the JSON has the type of the result.
func (c Converted) Changed(result mcp.Result, typed bool) (jsontext.Value, error) {
	switch result.(type) {
	case nil:
		return nil, errUnknownResult
	case *opaque:
		if result == c.Result {
			return nil, nil
		}
		return nil, errUnknownResult
	}
	after, err := Encode(result, false)
	if err != nil || result == c.Result && bytes.Equal(after, c.before) {
		return nil, err
	}
	if typed {
		return Encode(result, true)
	}
	return after, nil
}

// Encode returns a result in JSON. typed says whether the JSON has the type of the result, which is
// not a member of its Go type.
func Encode(result mcp.Result, typed bool) (jsontext.Value, error) {
	data, err := wire.Marshal(nil, result)
	switch {
	case err != nil:
		return nil, err
	case len(data) == 0 || data[0] != '{':
		return nil, errUnknownResult
	case !typed:
		return data, nil
	}
	head := wire.AppendString([]byte(`{"resultType":`), wire.ResultType(result))
	if members := data[1:]; members[0] != '}' {
		return append(append(head, ','), members...), nil
	}
	return append(head, '}'), nil
}
