package server

import (
	"context"

	"github.com/go-json-experiment/json"

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
	if err := json.Unmarshal(call.Params, &params); err != nil {
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
	switch ref.Type {
	case "ref/prompt":
		if to := s.prompts.target(ref.Name); to != nil && s.routes.view.shows(ctx, call.Request, to.item, "") {
			return to.arguments, nil
		}
		return nil, noPrompt(ref.Name)
	case "ref/resource":
		if to := s.templates.target(ref.URI); to != nil && s.routes.view.shows(ctx, call.Request, to.item, "") {
			return to.arguments, nil
		}
		if to := s.resources.target(ref.URI); to != nil && s.routes.view.shows(ctx, call.Request, to.item, "") {
			return nil, nil // it has no arguments
		}
		return nil, mcp.NewError(mcp.CodeInvalidParams, "there is no resource template %q", cut(ref.URI, 128))
	}
	return nil, mcp.NewError(mcp.CodeInvalidParams, `params.ref.type must be "ref/prompt" or "ref/resource"`)
}
