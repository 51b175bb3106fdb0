package gosdk

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// served has the answer of the SDK, and its form for middlewares.
type served struct {
	result    sdk.Result
	err       error
	converted adapt.Converted
	shown     error // the error for the middlewares
}

// convert returns the answer for the middlewares. The SDK makes a result of the error of a tool's
// handler; the middlewares get the error.
func (s *served) convert(method string, chained bool) (mcp.Result, error) {
	if s.err != nil {
		s.shown = &adapt.SDKError{Err: s.err, Wire: wireError(s.err)}
		return nil, s.shown
	}
	if tool, ok := s.result.(*sdk.CallToolResult); ok && tool.GetError() != nil {
		s.shown = tool.GetError()
		return nil, s.shown
	}
	if !chained {
		return nil, nil
	}
	s.converted = adapt.Convert(method, s.result)
	return s.converted.Result, nil
}

// settle returns the answer for the SDK. It is the SDK's own answer unless the middlewares changed it.
func (s *served) settle(call *adapt.Call, result mcp.Result, err error, chained bool) (sdk.Result, error) {
	switch {
	case call.Denied():
		return nil, unknown(call.Request, err)
	case err != nil && s.shown != nil && errors.Is(err, s.shown) && !adapt.Ours(err):
		return s.result, s.err
	case err != nil:
		return told(call, err)
	case !chained:
		return s.result, nil
	}
	changed, err := s.converted.Changed(result, typed(call))
	if err != nil {
		call.Operation().Error(err)
		return told(call, err)
	}
	if changed == nil {
		return s.result, nil
	}
	return decode(call.Request.Method, changed)
}

// typed reports whether the caller is told the type of its result. The SDK sets the type before the
// middlewares see the result, so it is lost if it is not decoded.
func typed(call *adapt.Call) bool { return call.Request.Peer.Era == mcp.Modern }

// unknown returns the error with which the SDK answers a request for what does not exist. denied is that of
// the policies.
func unknown(req *middleware.Request, denied error) error {
	switch req.Method {
	case mcp.MethodToolsCall:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", req.Target)}
	case mcp.MethodPromptsGet:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown prompt %q", req.Target)}
	case mcp.MethodResourcesRead:
		return sdk.ResourceNotFoundError(req.Target)
	}
	rpc, _ := mcp.AsError(denied) // policies deny with one
	return toSDK(rpc)
}

// told returns the answer for an error, as our server makes it.
func told(call *adapt.Call, err error) (sdk.Result, error) {
	tool, rpc := call.Told(err)
	if rpc != nil {
		return nil, toSDK(rpc)
	}
	data, err := adapt.Encode(tool, typed(call))
	if err != nil {
		return nil, err
	}
	return decode(mcp.MethodToolsCall, data)
}

// decode returns the result of a middleware as a result of the SDK.
func decode(method string, data []byte) (sdk.Result, error) {
	result := newResult(method)
	if result == nil || json.Unmarshal(data, result) != nil {
		return nil, toSDK(adapt.ErrPanicked)
	}
	if hint := cacheable(result); hint != nil && hint.CacheScope == "" { // it must be there
		hint.CacheScope = string(mcp.CachePrivate)
	}
	return result, nil
}

// cacheable returns the cache hint of a result, or nil if it has none.
func cacheable(result sdk.Result) *sdk.Cacheable {
	switch result := result.(type) {
	case *sdk.ListToolsResult:
		return &result.Cacheable
	case *sdk.ListPromptsResult:
		return &result.Cacheable
	case *sdk.ListResourcesResult:
		return &result.Cacheable
	case *sdk.ListResourceTemplatesResult:
		return &result.Cacheable
	case *sdk.ReadResourceResult:
		return &result.Cacheable
	}
	return nil
}

// newResult returns an empty result of a method.
func newResult(method string) sdk.Result {
	switch method {
	case mcp.MethodToolsCall:
		return new(sdk.CallToolResult)
	case mcp.MethodToolsList:
		return new(sdk.ListToolsResult)
	case mcp.MethodPromptsGet:
		return new(sdk.GetPromptResult)
	case mcp.MethodPromptsList:
		return new(sdk.ListPromptsResult)
	case mcp.MethodResourcesRead:
		return new(sdk.ReadResourceResult)
	case mcp.MethodResourcesList:
		return new(sdk.ListResourcesResult)
	case mcp.MethodResourcesTemplatesList:
		return new(sdk.ListResourceTemplatesResult)
	case mcp.MethodCompletionComplete:
		return new(sdk.CompleteResult)
	}
	return nil
}

// toSDK returns an error as the SDK sends it.
func toSDK(e *mcp.Error) *jsonrpc.Error {
	wire := &jsonrpc.Error{Code: int64(e.Code), Message: e.Message}
	if e.Data != nil {
		if data, err := json.Marshal(e.Data); err == nil {
			wire.Data = data
		}
	}
	return wire
}
