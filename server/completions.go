package server

import (
	"context"
	"reflect"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// completes notes that the server has completions, if one of the functions is not nil.
func (s *Server) completes(arguments map[string]CompleteFunc) {
	for _, f := range arguments {
		if f != nil {
			s.completion.Store(true)
		}
	}
}

// complete serves completion/complete.
func (s *Server) complete(ctx context.Context, call *Call) (mcp.Result, error) {
	var params mcp.CompleteParams
	held, err := s.validator.Hold(call.dialog.Core, reflect.TypeFor[mcp.CompleteParams](), call.Params)
	if err != nil {
		return nil, err
	}
	call.dialog.Hold(held)
	if err := wire.Unmarshal(call.Params, &params); err != nil {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "the params of completion/complete are not valid")
	}
	arguments, err := s.completable(ctx, call, params.Ref)
	if err != nil {
		return nil, err
	}
	f, known := arguments[params.Argument.Name]
	if !known {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "there is no argument %q", cut(params.Argument.Name, 128))
	}
	result := &mcp.CompleteResult{}
	if f == nil {
		return result, nil
	}
	values, err := f(ctx, call, params.Argument.Value, params.Context.Arguments)
	if err != nil {
		return nil, err
	}
	if total := len(values); total > mcp.MaxCompletions {
		values = values[:mcp.MaxCompletions]
		result.Completion.Total, result.Completion.HasMore = &total, true
	}
	result.Completion.Values = values
	return result, nil
}

// completable returns the arguments of the prompt or template of a completion. It returns an error
// if the caller may not see that.
func (s *Server) completable(ctx context.Context, call *Call, ref mcp.CompletionReference) (map[string]CompleteFunc, error) {
	if ref.Type != "ref/prompt" && ref.Type != "ref/resource" {
		return nil, mcp.NewError(mcp.CodeInvalidParams, `params.ref.type must be "ref/prompt" or "ref/resource"`)
	}
	to := s.referenced(ref)
	if to != nil && s.access.asked.Load() {
		switch d := s.decideListed(ctx, s.callerOf(call.Request), to); {
		case needsScopes(&d):
			return nil, s.access.challenge(call.Principal, &d)
		case denies(&d):
			to = nil
		}
	}
	switch {
	case to != nil:
		return to.arguments, nil
	case ref.Type == "ref/prompt":
		return nil, noPrompt(ref.Name)
	}
	return nil, mcp.NewError(mcp.CodeInvalidParams, "there is no resource template %q", cut(ref.URI, 128))
}

// referenced returns the prompt, the template, or the resource, which has no arguments, of a
// completion; nil if there is none.
func (s *Server) referenced(ref mcp.CompletionReference) *target {
	switch ref.Type {
	case "ref/prompt":
		return s.prompts.target(ref.Name)
	case "ref/resource":
		if to := s.templates.target(ref.URI); to != nil {
			return to
		}
		return s.resources.target(ref.URI)
	}
	return nil
}
