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

// An Encoder writes results in the form of their reader's revision. It is safe for
// concurrent use.
type Encoder struct {
	info       mcp.Implementation
	serverInfo []byte // {"io.modelcontextprotocol/serverInfo":...}, encoded
	// scope is that of results whose handlers say nothing of who may share them.
	scope mcp.CacheScope

	tools     pages[*mcp.Tool]
	prompts   pages[*mcp.Prompt]
	resources pages[*mcp.Resource]
	templates pages[*mcp.ResourceTemplate]
}

// Registered tells of each list whether all the given entries are registered, in this order.
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

// Encode appends the JSON of a result. Modern results say their type, who made
// them and how long they stay fresh; legacy ones say none of it, and nothing else
// that their revision does not know. rest is explained at [session.Dispatcher].
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
			dst = append(append(append(dst, `{"resultType":"`...), resultType(result)...), `",`...)
		} else {
			dst = append(append(append(dst, `{"resultType":"`...), resultType(result)...), `","_meta":`...)
			dst = append(append(dst, e.serverInfo...), ',')
		}
	}
	if page := e.knownPage(v, result); page != nil {
		return dst, page, nil
	}
	mark := len(dst) - 1 // where the result's own brace goes, since our object has opened already
	opened := dst[mark]
	dst, err = appendObject(dst[:mark], v, era, result)
	if err != nil {
		return dst[:at], nil, err
	}
	dst[mark] = opened
	if string(dst[mark:]) == ",}" { // the result says nothing of its own
		return append(dst[:mark], '}'), nil, nil
	}
	e.keepPage(v, result, dst[mark+1:])
	return dst, nil, nil
}

// EncodeTask returns the JSON of the result of a task, as its call would have been
// answered with.
func (e *Encoder) EncodeTask(to *middleware.Peer, result mcp.Result) (jsontext.Value, error) {
	if kind := resultType(result); kind != "complete" {
		return nil, fmt.Errorf("server: a result of type %q cannot end a task", kind)
	}
	json, _, err := e.Encode(nil, to.Era, to.Version, result) // of a call, which shares nothing
	return json, err
}

// withServerInfo returns a copy of a result that has metadata, with ours.
func (e *Encoder) withServerInfo(result mcp.Result) mcp.Result {
	merged := mcp.Meta{mcp.MetaServerInfo: e.info}
	for k, v := range *result.ResultMetadata() {
		merged[k] = v
	}
	result = shallowCopy(result)
	*result.ResultMetadata() = merged
	return result
}

// appendObject appends the object of a result, with what its reader's revision knows.
func appendObject(dst []byte, v mcp.Version, era mcp.Era, result mcp.Result) (_ []byte, err error) {
	if era == mcp.Legacy {
		if result, err = downgrade(v, withoutHint(result)); err != nil {
			return dst, err
		}
	}
	return marshalObject(dst, result)
}

// resultType returns what a modern result says of itself.
func resultType(result mcp.Result) string {
	if typed, ok := result.(interface{ ResultType() string }); ok {
		return typed.ResultType()
	}
	return "complete"
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

// withHint fills in what a cacheable result must say in the modern era: stale at
// once, and for everybody who sees the same, unless the handler knows better.
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

// withoutHint takes the hint away.
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

// knownPage returns the rest of an answer with a page of a list for clients of a
// revision, or nil.
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

// keepPage remembers a result, of which members is the JSON without the first brace, if
// it is a page of a list.
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
