package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// A Method describes a method of the program to [AddMethod].
type Method struct {
	// Name is what clients call, as in "com.example/thing/start": 1 to 128 visible
	// ASCII characters. The names and prefixes of the protocol's own methods are
	// reserved. It is the method's label in metrics and traces.
	Name string
	// Extension is the id of the extension that the method belongs to, which must have been
	// added. Clients that have not declared it get an error. If it is "", all clients may
	// call the method.
	Extension string
	// Middleware wraps this method's handler, inside the server's own chain.
	Middleware []middleware.Middleware
	// Deadline and Class are explained at [Tool].
	Deadline time.Duration
	Class    *Class
}

// A MethodHandler serves the calls of one method. P, a struct or a map, is decoded from the params
// of the request. A request with an unknown, missing or ill-typed member is answered with -32602,
// and the handler is not called. The _meta member is left out unless P has it; [Call] has it, too.
//
// R must encode to a JSON object. If it is a [mcp.Result] (a struct with an embedded
// [mcp.ResultMeta], or a pointer to one) the handler may set members of its _meta.
//
// An error that is or wraps an [*mcp.Error] goes to the client as it is, any other as
// "internal error". The server recovers a panic. Modern clients cannot be asked: [Call.Elicit] and
// the like return [mcp.ErrNoBackChannel].
type MethodHandler[P, R any] func(ctx context.Context, call *Call, params P) (R, error)

// AddMethod registers a method of the program, or replaces the one with its name. Running calls go
// on with the old handler. AddMethod panics on a mistake in the definition; see [TryAddMethod].
func AddMethod[P, R any](s *Server, m Method, h MethodHandler[P, R]) {
	must(TryAddMethod(s, m, h))
}

// TryAddMethod is [AddMethod] that returns the error: for an invalid or reserved name, an extension
// that was not added, params and results that are no JSON objects, and a handler or a middleware
// that is nil. After an error nothing has changed.
func TryAddMethod[P, R any](s *Server, m Method, h MethodHandler[P, R]) error {
	how := serving{middlewares: m.Middleware, deadline: m.Deadline, class: cmp.Or(m.Class, s.routes.class)}
	if err := s.checkExtends(m.Name, m.Extension, how); err != nil {
		return err
	}
	if h == nil {
		return fmt.Errorf("server: method %q: the handler is nil", m.Name)
	}
	params, err := newParamsOf[P]()
	if err != nil {
		return fmt.Errorf("server: method %q: params: %w", m.Name, err)
	}
	if !isObject(reflect.TypeFor[R]()) {
		return fmt.Errorf("server: method %q: a result must encode to a JSON object, and %v does not", m.Name, reflect.TypeFor[R]())
	}
	handler := func(ctx context.Context, call *Call) (mcp.Result, error) {
		in, held, err := params.decode(ctx, s.validator, call.dialog.Core, call.Params)
		call.dialog.Hold(held)
		if err != nil {
			return nil, err
		}
		out, err := h(ctx, call, in)
		if err != nil {
			return nil, err
		}
		return resultOf(out)
	}
	own := &method{
		name: m.Name, eras: era.Both, handler: s.routes.serve(ifDeclared(m.Extension, handler)), serving: how,
		own: true, extension: m.Extension,
	}
	s.routeMethod(own)
	replaced, err := s.extensions.enter(m.Name, m.Extension, func() bool { return s.methods.put(own) })
	if replaced {
		logReplaced(s.logger, "method", m.Name, false)
	}
	return err
}

// RemoveMethods removes methods of the program by name. Later calls are answered with -32601. It
// ignores unknown names and the methods of the protocol. Running calls go on.
func (s *Server) RemoveMethods(names ...string) {
	s.methods.remove(func(m *method) bool { return m.own && slices.Contains(names, m.name) })
}

// paramsOf decodes the params of a method or notification of the program.
type paramsOf[P any] struct {
	schema *schema.Schema
	meta   bool // P has the _meta member
}

func newParamsOf[P any]() (p paramsOf[P], err error) {
	if p.schema, err = schema.For(reflect.TypeFor[P]()); err != nil {
		return p, err
	}
	p.meta = schema.At(p.schema.JSON(), "properties", "_meta") != nil
	return p, p.schema.RequireObject()
}

// decode returns the params, or an error that names everything that is wrong. held must be released when the handler has returned.
func (p *paramsOf[P]) decode(ctx context.Context, v *schema.Validator, from schema.Sender, raw jsontext.Value) (params P, held *share.Held, err error) {
	switch {
	case raw == nil:
		raw = jsontext.Value("{}")
	case raw.Kind() != '{':
		return params, nil, mcp.NewError(mcp.CodeInvalidParams, "params must be an object")
	case !p.meta:
		raw = schema.Without(raw, "_meta")
	}
	held, faults, err := v.DecodeFor(ctx, from, p.schema, 0, raw, &params)
	if err != nil || len(faults) == 0 {
		return params, held, err
	}
	if faults[0].Misfit {
		return params, held, fmt.Errorf("the params do not fit the Go type %T: %s", params, faults[0])
	}
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = f.String()
	}
	return params, held, mcp.NewError(mcp.CodeInvalidParams, "params are not valid: %s", strings.Join(texts, "; "))
}

// isObject reports whether values of a type may encode to a JSON object.
func isObject(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Interface:
		return true
	}
	return t == reflect.TypeFor[jsontext.Value]()
}

var errNoResult = errors.New("the handler returned neither a result nor an error")

// resultOf returns the result for what the handler of a method has returned.
func resultOf[R any](out R) (mcp.Result, error) {
	if v := reflect.ValueOf(out); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errNoResult
	}
	if result, ok := any(out).(mcp.Result); ok {
		return result, nil
	}
	if result, ok := any(&out).(mcp.Result); ok { // the method has a pointer receiver
		return result, nil
	}
	return &wrappedResult{value: out}, nil
}

// A wrappedResult makes a result of a value that is no mcp.Result.
type wrappedResult struct {
	value any
	mcp.ResultMeta
}

// MarshalJSONTo implements json.MarshalerTo: it writes the value. The value must not have the
// members that the server adds to a result.
func (w *wrappedResult) MarshalJSONTo(enc *jsontext.Encoder) error {
	raw, err := wire.Marshal(nil, w.value)
	if err != nil {
		return err
	}
	for _, name := range []string{"resultType", "_meta"} {
		if schema.At(raw, name) != nil {
			return fmt.Errorf("the member %s of a result is the server's: embed mcp.ResultMeta to set _meta", name)
		}
	}
	return enc.WriteValue(raw)
}
