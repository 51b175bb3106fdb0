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

// A Converted is a result of an SDK as middlewares see it.
type Converted struct {
	// Result is one of package mcp, or of no known type if its method has none there.
	Result mcp.Result
	before []byte // how Result was encoded; nil if nothing is known of it
}

// An opaque result is one of which nothing is known.
type opaque struct{ mcp.ResultMeta }

// Convert converts a result of an SDK. It goes by way of JSON.
func Convert(method string, result any) Converted {
	unknown := Converted{Result: &opaque{}}
	data, err := stdjson.Marshal(result)
	if err != nil {
		return unknown // the SDK will find out, too
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

// withContent decodes blocks of content, of which the type is only known from the JSON.
var withContent = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *mcp.Content) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	*into, err = mcp.UnmarshalContent(raw)
	return err
}))

// newResult returns an empty result of the type that a method answers with; nil if that
// is not known.
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

// errUnknownResult is returned for a result that cannot be given to an SDK.
var errUnknownResult = errors.New("a middleware has returned nil, or changed a result that it cannot know")

// Changed encodes what the middlewares have returned, if it is not what they were given;
// nil if it is.
func (c Converted) Changed(result mcp.Result) (jsontext.Value, error) {
	switch result.(type) {
	case nil:
		return nil, errUnknownResult
	case *opaque:
		if result == c.Result {
			return nil, nil
		}
		return nil, errUnknownResult
	}
	after, err := wire.Marshal(nil, result)
	if err != nil || result == c.Result && bytes.Equal(after, c.before) {
		return nil, err
	}
	return after, nil
}
