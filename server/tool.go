package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// A Tool describes a tool to [AddTool]. Name and Description should be set; the
// schemas are inferred from the handler's types unless they are given.
type Tool struct {
	// Name is 1 to 128 of the characters A-Z a-z 0-9 _ . and -.
	Name        string
	Title       string
	Description string
	// InputSchema and OutputSchema, if given, reach the client keyword for keyword, in
	// their order and with their numbers as written. White space between tokens is
	// dropped and strings may be escaped differently. The input schema must describe an
	// object. Clients of a legacy revision see no output schema but that of an object.
	//
	// Both are compared with the Go types of the handler, through references: a property
	// that only one of the two has, and types that exclude each other, are an error. Types
	// without known properties are not compared: any, maps, jsontext.Value and others with
	// JSON methods of their own. Only clients use the defaults of a given schema.
	InputSchema  jsontext.Value
	OutputSchema jsontext.Value
	// AllowUnmatchedProperties allows properties that only a given schema or only its Go type
	// has. A handler does not get properties that its type does not have, and gets zero values
	// for those that the schema does not have.
	AllowUnmatchedProperties bool
	Annotations              *mcp.ToolAnnotations
	Icons                    []mcp.Icon
	Meta                     mcp.Meta
	// Middleware wraps this tool's handler, inside the server's own chain.
	Middleware []middleware.Middleware
	// Deadline bounds a call, counted from its admission, the time in the queue included.
	// When it has passed, the caller gets an error at once and the handler's context is
	// cancelled with [mcp.ErrDeadline]. 0 is [Limits].RequestTimeout; MaxRequestTimeout
	// holds in any case.
	Deadline time.Duration
	// Class limits how many handlers run at once, together with all else that names it.
	// The default is the server's ([WithClass]), or none.
	Class *Class
	// YieldClass lets the slot of the class go while the handler waits for an answer of its client
	// ([Call.Elicit], [Call.Sample], [Call.Roots], [Call.CallClient]). The handler then waits for a slot
	// again before it goes on, within its deadline. A handler that asks from several goroutines has no
	// slot until the last of them has its answer. Leave it unset if the class counts something that the
	// handler holds meanwhile, such as a connection of a database.
	YieldClass bool
	// Streams says that a call lasts as long as there is something to tell its client, as one that
	// follows a log does: how long it takes says nothing about its health. Telemetry does not take it for
	// slow, and the latency objective of the rules in dashboards leaves it out unless it names the tool.
	Streams bool
	// ValidationSteps bounds the validation of the arguments, and of the output, of one call,
	// whatever their size. The default is a share of [Limits].MaxValidationSteps that depends on the
	// size and on the schema. Raise it for a tool whose schema needs more for legal arguments.
	ValidationSteps int
	// Scopes are what a caller needs for a call; see [WithScopeHierarchy]. The tool is listed to
	// those who do not have them, too.
	Scopes []string
	// Task says whether calls may go on as tasks ([Call.Detach]); zero is never.
	Task TaskSupport
	// Restartable says that the handler of a task may begin again at another replica ([WithStore]) if the one
	// that ran it is lost, or shuts down before the handler has ended. Otherwise the task fails then
	// ([mcp.ErrReplicaLost], [mcp.ErrServerShutdown]).
	//
	// So the handler may run twice or more ([Limits].MaxTaskRuns), partly or wholly, and two runs may overlap
	// for a while: what it does outside must be idempotent. Each run begins at the start, with the arguments and
	// the principal of the call, and without its HTTP header. It is a task from the beginning, so that Detach
	// returns at once. It asks its client anew: earlier answers are not kept, unless the handler keeps them
	// in a place of its own. Arguments and principal are in the store until the task ends.
	Restartable bool
}

// A ToolHandler serves the calls of one tool. In is decoded from the arguments, which satisfy
// the input schema; see [AddTool]. Out becomes the structured content of the result, and the
// same JSON becomes its text. Two types of Out are different: a string becomes a block of text,
// and a *mcp.CallToolResult is the whole result.
//
// [mcp.ToolError] explains what the model is told of an error. Make errors for the model with
// [mcp.ToolErrorf], and mark mistakes of the caller with [mcp.CallerFault]. An error that
// matches [mcp.ErrInputRequired] (see [Call.Elicit]) or [mcp.ErrNotDeclared] is for the server.
// The server recovers a panic and answers with "internal error".
type ToolHandler[In, Out any] func(ctx context.Context, call *Call, in In) (Out, error)

// AddTool registers a tool, or replaces the one with its name. It panics on a mistake in the
// definition; see [TryAddTool]. It may be called while the server serves.
//
// A replacement is atomic and keeps the place of the tool in the list. Running calls go on with
// the old handler and its schemas. A modern call that has asked its client is repeated as a new
// request, which the new handler serves. Clients are told that the list has changed if the
// definition has.
//
// Schemas that are not given are inferred from In and Out. Fields with omitempty or omitzero
// are optional, all others required. Keywords of JSON Schema are tags, which arguments must
// satisfy:
//
//	type search struct {
//		Query string   `json:"query" jsonschema:"what to look for" minLength:"1"`
//		Sort  string   `json:"sort" enum:"date,relevance" default:"date"`
//		Limit int      `json:"limit" minimum:"1" maximum:"50" default:"10"`
//		Tags  []string `json:"tags,omitempty" enum:"news,blog" maxItems:"2"`
//	}
//
// The tags are title, description (the jsonschema tag is the same), deprecated, readOnly and
// writeOnly; format, pattern, minLength and maxLength of strings; minimum, maximum,
// exclusiveMinimum, exclusiveMaximum and multipleOf of numbers; minItems, maxItems and
// uniqueItems of slices and arrays; minProperties and maxProperties of maps. enum lists the
// choices of a field, or of the items of a slice. A field with a default may be missing from
// the arguments, and the handler sees the default then. examples are written as enum. A slice's
// default is a list, too, or JSON; that of a map or a struct is JSON. A tag that contradicts
// the type of its field, and one that looks like JSON Schema and is not among these, is an
// error.
func AddTool[In, Out any](s *Server, t Tool, h ToolHandler[In, Out]) {
	must(TryAddTool(s, t, h))
}

// TryAddTool is [AddTool] that returns the error: for an invalid name, a schema that does not
// compile, refers to another document or does not fit its Go type, an input that is not an
// object, an invalid tag or x-mcp-header annotation, and a handler or a middleware that is nil.
// After an error nothing has changed. A later call of the tool cannot fail for any of these
// reasons.
func TryAddTool[In, Out any](s *Server, t Tool, h ToolHandler[In, Out]) error {
	if err := checkToolName(t.Name); err != nil {
		return err
	}
	if h == nil {
		return fmt.Errorf("server: tool %q: the handler is nil", t.Name)
	}
	if t.ValidationSteps < 0 {
		return fmt.Errorf("server: tool %q: ValidationSteps is negative", t.Name)
	}
	if err := s.checkTask(&t); err != nil {
		return err
	}
	in, err := t.input(reflect.TypeFor[In]())
	if err != nil {
		return fmt.Errorf("server: input schema of tool %q: %w", t.Name, err)
	}
	out, err := outputFor[Out](s, t)
	if err != nil {
		return fmt.Errorf("server: output schema of tool %q: %w", t.Name, err)
	}
	handler := func(ctx context.Context, call *Call) (mcp.Result, error) {
		var args In
		raw, err := arguments(call.Request)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		held, faults, err := s.validator.DecodeFor(ctx, call.dialog.Core, in, t.ValidationSteps, raw, &args)
		call.dialog.Hold(held)
		observe.Validated(call.dialog.Core, time.Since(begin))
		if err != nil {
			return nil, err
		}
		if len(faults) > 0 {
			return inputFailure(call.dialog.Core, t.Name, reflect.TypeFor[In](), in, faults)
		}
		result, err := h(ctx, call, args)
		if err != nil {
			return nil, err
		}
		return out.timed(ctx, call.dialog.Core, result)
	}
	if t.Task != 0 {
		handler = s.detachable(t.Task, handler)
	}
	how := serving{t.Middleware, t.Deadline, t.Class, t.YieldClass, t.Streams, t.Restartable, need{scopes: t.Scopes}}
	if err := s.enterTool(t.definition(in, out.schema), paramHeaders(in), handler, how); err != nil {
		return err
	}
	s.warnOfCost(t, "input", in)
	if out.check {
		s.warnOfCost(t, "output", out.schema)
	}
	return nil
}

// definition returns what clients see of the tool. out may be nil.
func (t *Tool) definition(in, out *schema.Schema) *mcp.Tool {
	def := &mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: in.JSON(),
		Annotations: t.Annotations, Icons: t.Icons, Meta: t.Meta,
	}
	if out != nil {
		def.OutputSchema = out.JSON()
	}
	return def
}

// checkTask returns what is wrong with Task and Restartable, or nil.
func (s *Server) checkTask(t *Tool) error {
	switch {
	case t.Restartable && t.Task == 0:
		return fmt.Errorf("server: tool %q is restartable, and its calls are never tasks: set Task", t.Name)
	case t.Task == TaskRequired && s.tasks == nil:
		return fmt.Errorf("server: tool %q requires tasks: turn them on with WithTasks", t.Name)
	}
	return nil
}

// input returns the schema of the arguments, which are decoded into a Go type.
func (t *Tool) input(goType reflect.Type) (*schema.Schema, error) {
	in, err := schemaOf(t.InputSchema, goType, schema.For)
	if err == nil {
		err = in.RequireObject()
	}
	if err == nil && t.InputSchema != nil {
		err = in.Match(goType, t.AllowUnmatchedProperties)
	}
	return in, err
}

// warnOfCost logs what can make the validation of small values reach its limit.
func (s *Server) warnOfCost(t Tool, which string, sch *schema.Schema) {
	for _, doubt := range s.validator.Doubts(sch, t.ValidationSteps) {
		s.logger.Warn("schema.costly", "tool", t.Name, "schema", which, "problem", doubt,
			"effect", "values of a few bytes can be refused because of max_validation_steps")
	}
}

// schemaOf returns the given schema, or infers one.
func schemaOf(given jsontext.Value, t reflect.Type, infer func(reflect.Type) (*schema.Schema, error)) (*schema.Schema, error) {
	if given != nil {
		return schema.Parse(given)
	}
	return infer(t)
}

// arguments returns the arguments of a tools/call request, {} if there are none.
func arguments(req *middleware.Request) (jsontext.Value, error) {
	raw := era.CoreOf(req).Arguments
	switch {
	case raw == nil:
		return jsontext.Value("{}"), nil
	case raw.Kind() != '{':
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.arguments must be an object")
	}
	return raw, nil
}

// inputFailure returns a result that tells the model everything that is wrong with its arguments.
// Arguments that fit the schema and not the Go type are a fault of the server.
func inputFailure(r *session.Request, tool string, in reflect.Type, sch *schema.Schema, faults []schema.Fault) (mcp.Result, error) {
	if faults[0].Misfit {
		return nil, era.Fault{Err: fmt.Errorf("the input schema contradicts the Go type %v: %s", in, faults[0])}
	}
	var text strings.Builder
	recorded := make([]string, len(faults))
	fmt.Fprintf(&text, "The arguments of %s are not valid:", tool)
	for i, f := range faults {
		text.WriteString("\n- " + f.String())
		recorded[i] = sch.Discreet(f)
	}
	observe.ArgumentsRejected(r, strings.Join(recorded, "; "))
	return mcp.ToolErrorResult(text.String()), nil
}

// An output makes the result of what a handler returns.
type output[Out any] struct {
	validator *schema.Validator
	steps     int
	schema    *schema.Schema // nil if the tool has no structured output
	check     bool           // the value may break the schema
}

func outputFor[Out any](s *Server, t Tool) (output[Out], error) {
	o := output[Out]{validator: s.validator, steps: t.ValidationSteps}
	typ := reflect.TypeFor[Out]()
	whole := typ == reflect.TypeFor[*mcp.CallToolResult]()
	if t.OutputSchema == nil && (whole || typ == reflect.TypeFor[string]()) {
		return o, nil
	}
	sch, err := schemaOf(t.OutputSchema, typ, schema.ForOutput)
	if err == nil && t.OutputSchema != nil && !whole {
		err = sch.Match(typ, t.AllowUnmatchedProperties)
	}
	if err != nil {
		return o, err
	}
	o.schema, o.check = sch, t.OutputSchema != nil || !sch.ProvenByType()
	return o, nil
}

// timed is result. It measures how long the output takes if it must be encoded.
func (o output[Out]) timed(ctx context.Context, r *session.Request, value Out) (mcp.Result, error) {
	if o.schema == nil {
		return o.result(ctx, r, value)
	}
	begin := time.Now()
	result, err := o.result(ctx, r, value)
	r.Encoded(time.Since(begin))
	return result, err
}

// result returns the result. A value that breaks the tool's own schema is a fault of the server.
func (o output[Out]) result(ctx context.Context, from schema.Sender, value Out) (mcp.Result, error) {
	switch v := any(&value).(type) { // a value itself would be copied to the heap
	case **mcp.CallToolResult:
		return o.whole(ctx, from, *v)
	case *string:
		if o.schema == nil {
			return textResult(*v, nil), nil
		}
	}
	raw, err := wire.Marshal(nil, value)
	if err != nil {
		return nil, era.Fault{Err: fmt.Errorf("encode the output: %w", err)}
	}
	if err := o.valid(ctx, from, raw); err != nil {
		return nil, err
	}
	return textResult(string(raw), jsontext.Value(raw)), nil
}

// textResult returns a result with one block of text. Its parts are one allocation, three in the plain
// version.
func textResult(text string, structured any) *mcp.CallToolResult {
	r := &struct {
		mcp.CallToolResult
		content [1]mcp.Content
		text    mcp.TextContent
	}{}
	r.text.Text = text
	r.content[0] = &r.text
	r.Content, r.StructuredContent = r.content[:], structured
	return &r.CallToolResult
}

// whole checks a result that the handler has built.
func (o output[Out]) whole(ctx context.Context, from schema.Sender, result *mcp.CallToolResult) (mcp.Result, error) {
	if result == nil {
		return nil, era.Fault{Err: errNoResult}
	}
	for i, block := range result.Content {
		if isNil(block) {
			return nil, era.Fault{Err: fmt.Errorf("content block %d is nil", i)}
		}
	}
	if o.schema == nil || result.IsError {
		return result, nil
	}
	raw, err := wire.Marshal(nil, result.StructuredContent)
	if err != nil {
		return nil, era.Fault{Err: fmt.Errorf("encode the structured content: %w", err)}
	}
	return result, o.valid(ctx, from, raw)
}

func (o output[Out]) valid(ctx context.Context, from schema.Sender, raw jsontext.Value) error {
	if !o.check {
		return nil
	}
	faults, err := o.validator.Validate(ctx, from, o.schema, o.steps, raw)
	if err != nil && ctx.Err() == nil {
		err = era.Fault{Err: fmt.Errorf("the output cannot be validated: %w", err)}
	}
	if err != nil || len(faults) == 0 {
		return err
	}
	text := "the output breaks the tool's output schema:"
	for _, f := range faults {
		text += " " + f.String() + ";"
	}
	return era.Fault{Err: errors.New(text[:len(text)-1])}
}

// enterTool registers a tool whose definition was checked.
func (s *Server) enterTool(
	def *mcp.Tool, params []paramHeader, h callHandler, how serving,
) error {
	if err := how.check(auth.KindTool, def.Name); err != nil {
		return err
	}
	route := middleware.NewRoute(mcp.MethodToolsCall, def.Name, def.Name)
	op := auth.Operation{Kind: auth.KindTool, Name: def.Name}
	to := s.routes.target(route, op, withParams(params, s.routes.serve(h)), how)
	_, err := s.tools.enter(def.Name, def, to)
	return err
}

// RemoveTools removes tools by name. It ignores unknown names. Running calls go on.
func (s *Server) RemoveTools(names ...string) { s.tools.remove(names...) }

// unknownTool answers calls that name no registered tool.
func unknownTool(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	in := era.CoreOf(req)
	if !in.HasName {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.name is missing")
	}
	return nil, mcp.NewError(mcp.CodeInvalidParams, "there is no tool %q", cut(in.Name, 128))
}

// checkToolName returns an error for a name that the specification does not allow.
func checkToolName(name string) error {
	if name == "" || len(name) > 128 {
		return fmt.Errorf("server: tool name %q must have 1 to 128 characters", cut(name, 128))
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
		default:
			return fmt.Errorf("server: tool name %q may have letters, digits, _ . and - only", name)
		}
	}
	return nil
}
