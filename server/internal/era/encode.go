package era

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// An Encoder writes results in the form of the client's revision. It is safe for concurrent use.
type Encoder struct {
	info       mcp.Implementation
	serverInfo []byte // {"io.modelcontextprotocol/serverInfo":...}, encoded
	// scope is the cache scope of results whose handlers set none.
	scope mcp.CacheScope

	tools     pages[*mcp.Tool]
	prompts   pages[*mcp.Prompt]
	resources pages[*mcp.Resource]
	templates pages[*mcp.ResourceTemplate]
}

// Registered has a function for each list. It reports whether all given entries are registered,
// in this order.
type Registered struct {
	Tools     func([]*mcp.Tool) bool
	Prompts   func([]*mcp.Prompt) bool
	Resources func([]*mcp.Resource) bool
	Templates func([]*mcp.ResourceTemplate) bool
}

// NewEncoder returns the encoder of a server. scope is the cache scope of results whose
// handlers set none.
func NewEncoder(info mcp.Implementation, scope mcp.CacheScope, registered Registered) (*Encoder, error) {
	serverInfo, err := wire.Marshal(nil, mcp.Meta{mcp.MetaServerInfo: info})
	return &Encoder{
		info: info, serverInfo: serverInfo, scope: scope,
		tools:     pages[*mcp.Tool]{registered: registered.Tools},
		prompts:   pages[*mcp.Prompt]{registered: registered.Prompts},
		resources: pages[*mcp.Resource]{registered: registered.Resources},
		templates: pages[*mcp.ResourceTemplate]{registered: registered.Templates},
	}, err
}

// SetScope replaces the cache scope of results whose handlers set none. It must be called before the
// first request.
func (e *Encoder) SetScope(scope mcp.CacheScope) { e.scope = scope }

// Encode appends the JSON of a result. Modern results have their type, the server's name and a
// cache hint. Legacy results have only what their revision knows. rest is explained at
// [session.Dispatcher].
func (e *Encoder) Encode(dst []byte, era mcp.Era, v mcp.Version, result mcp.Result) (_, rest []byte, err error) {
	if result == nil {
		result = &mcp.EmptyResult{}
	}
	at := len(dst)
	switch era {
	case mcp.Legacy:
		dst = append(dst, '{')
	default:
		if result = e.withHint(result); len(*result.ResultMetadata()) > 0 {
			result = e.withServerInfo(result)
			dst = append(append(append(dst, `{"resultType":"`...), wire.ResultType(result)...), `",`...)
		} else {
			dst = append(append(append(dst, `{"resultType":"`...), wire.ResultType(result)...), `","_meta":`...)
			dst = append(append(dst, e.serverInfo...), ',')
		}
	}
	if page := e.knownPage(v, result); page != nil {
		return dst, page, nil
	}
	mark := len(dst) - 1 // the place of the result's own brace, which would be a second one
	opened := dst[mark]
	dst, err = appendObject(dst[:mark], v, era, result)
	if err != nil {
		return dst[:at], nil, err
	}
	dst[mark] = opened
	if string(dst[mark:]) == ",}" { // the result has no members
		return append(dst[:mark], '}'), nil, nil
	}
	e.keepPage(v, result, dst[mark+1:])
	return dst, nil, nil
}

// EncodeTask returns the JSON of the result of a task: the same as that of a call.
func (e *Encoder) EncodeTask(to *middleware.Peer, result mcp.Result) (jsontext.Value, error) {
	if kind := wire.ResultType(result); kind != "complete" {
		return nil, fmt.Errorf("server: a result of type %q cannot end a task", kind)
	}
	json, _, err := e.Encode(nil, to.Era, to.Version, result) // only lists have a rest
	return json, err
}

// withServerInfo returns a copy of a result with the server's metadata added to its own.
func (e *Encoder) withServerInfo(result mcp.Result) mcp.Result {
	merged := mcp.Meta{mcp.MetaServerInfo: e.info}
	for k, v := range *result.ResultMetadata() {
		merged[k] = v
	}
	result = shallowCopy(result)
	*result.ResultMetadata() = merged
	return result
}

// appendObject appends the object of a result, without what the revision does not know.
func appendObject(dst []byte, v mcp.Version, era mcp.Era, result mcp.Result) (_ []byte, err error) {
	if era == mcp.Legacy {
		if result, err = downgrade(v, withoutHint(result)); err != nil {
			return dst, err
		}
	}
	return marshalObject(dst, result)
}

var errNotObject = errors.New("server: a result must encode to a JSON object")

func marshalObject(dst []byte, result mcp.Result) ([]byte, error) {
	if r, ok := result.(*mcp.CallToolResult); ok && r != nil {
		if dst, ok := appendToolResult(dst, r); ok {
			return dst, nil
		}
	}
	mark := len(dst)
	dst, err := wire.Marshal(dst, result)
	if err == nil && (len(dst) <= mark || dst[mark] != '{') {
		err = errNotObject
	}
	return dst, err
}

// cacheHinted is a result that carries a cache hint.
type cacheHinted interface{ CacheHinted() *mcp.CacheHint }

// withHint fills in the cache hint of a cacheable result, where the handler has set none: stale at
// once, with the server's scope.
func (e *Encoder) withHint(result mcp.Result) mcp.Result {
	hinted, ok := result.(cacheHinted)
	if !ok || hinted.CacheHinted().TTL != nil && hinted.CacheHinted().Scope != "" {
		return result
	}
	result = shallowCopy(result)
	hint := result.(cacheHinted).CacheHinted()
	if hint.TTL == nil {
		hint.TTL = new(int64)
	}
	if hint.Scope == "" {
		hint.Scope = e.scope
	}
	return result
}

// withoutHint removes the hint.
func withoutHint(result mcp.Result) mcp.Result {
	hinted, ok := result.(cacheHinted)
	if !ok || *hinted.CacheHinted() == (mcp.CacheHint{}) {
		return result
	}
	result = shallowCopy(result)
	*result.(cacheHinted).CacheHinted() = mcp.CacheHint{}
	return result
}

// shallowCopy copies a result, which its handler may share between requests.
func shallowCopy(result mcp.Result) mcp.Result {
	v := reflect.ValueOf(result)
	if v.Kind() != reflect.Pointer {
		return result
	}
	c := reflect.New(v.Type().Elem())
	c.Elem().Set(v.Elem())
	return c.Interface().(mcp.Result)
}

// knownPage returns the kept JSON of a page of a list, or nil.
func (e *Encoder) knownPage(v mcp.Version, result mcp.Result) []byte {
	if len(*result.ResultMetadata()) > 0 {
		return nil
	}
	switch r := result.(type) {
	case *mcp.ListToolsResult:
		return e.tools.find(v, r.Tools, r.NextCursor, r.CacheHint)
	case *mcp.ListPromptsResult:
		return e.prompts.find(v, r.Prompts, r.NextCursor, r.CacheHint)
	case *mcp.ListResourcesResult:
		return e.resources.find(v, r.Resources, r.NextCursor, r.CacheHint)
	case *mcp.ListResourceTemplatesResult:
		return e.templates.find(v, r.ResourceTemplates, r.NextCursor, r.CacheHint)
	}
	return nil
}

// keepPage keeps the JSON of a result that is a page of a list. members is the JSON without the
// first brace.
func (e *Encoder) keepPage(v mcp.Version, result mcp.Result, members []byte) {
	if len(*result.ResultMetadata()) > 0 {
		return
	}
	switch r := result.(type) {
	case *mcp.ListToolsResult:
		e.tools.keep(v, r.Tools, r.NextCursor, r.CacheHint, members)
	case *mcp.ListPromptsResult:
		e.prompts.keep(v, r.Prompts, r.NextCursor, r.CacheHint, members)
	case *mcp.ListResourcesResult:
		e.resources.keep(v, r.Resources, r.NextCursor, r.CacheHint, members)
	case *mcp.ListResourceTemplatesResult:
		e.templates.keep(v, r.ResourceTemplates, r.NextCursor, r.CacheHint, members)
	}
}
