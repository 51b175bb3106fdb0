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
	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// A Prompt describes a prompt to [AddPrompt].
type Prompt struct {
	// Name has 1 to 128 bytes, all of printable characters.
	Name        string
	Title       string
	Description string
	Arguments   []PromptArgument
	Icons       []mcp.Icon
	Meta        mcp.Meta
	// Middleware wraps this prompt's handler, inside the server's own chain.
	Middleware []middleware.Middleware
	// Deadline, Class and Scopes are explained at [Tool].
	Deadline time.Duration
	Class    *Class
	Scopes   []string
}

// A PromptArgument is a named text that a prompt takes.
type PromptArgument struct {
	Name        string
	Title       string
	Description string
	// Required arguments are there when the handler is called; they may be empty.
	Required bool
	// Complete proposes values, or is nil.
	Complete CompleteFunc
}

// A PromptHandler makes the messages of one prompt. [mcp.PromptText] is the simplest result. args has
// the arguments that the client has sent, with all required ones. The handler may change it.
//
// An error that is or wraps an [*mcp.Error] is sent as it is; any other is logged and
// answered with "internal error", and so is a panic.
type PromptHandler func(ctx context.Context, call *Call, args map[string]string) (*mcp.GetPromptResult, error)

// AddPrompt registers a prompt, or replaces the one with its name, as [AddTool] does with a tool. It
// panics on a mistake in the definition; see [TryAddPrompt].
func AddPrompt(s *Server, p Prompt, h PromptHandler) {
	must(TryAddPrompt(s, p, h))
}

// TryAddPrompt is [AddPrompt] that returns the error: for an invalid name, an argument without a name
// or with the name of another one, and a handler or a middleware that is nil. After an error nothing
// has changed.
func TryAddPrompt(s *Server, p Prompt, h PromptHandler) error {
	if err := checkName("prompt", p.Name); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	how := serving{middlewares: p.Middleware, deadline: p.Deadline, class: p.Class, need: need{scopes: p.Scopes}}
	if err := how.checkItem(auth.KindPrompt, p.Name, h != nil); err != nil {
		return err
	}
	def := &mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description, Icons: p.Icons, Meta: p.Meta}
	complete := make(map[string]CompleteFunc, len(p.Arguments))
	var required []string
	for _, a := range p.Arguments {
		if _, taken := complete[a.Name]; taken || a.Name == "" {
			return fmt.Errorf("server: prompt %q: an argument is named %q, but each needs a name of its own", p.Name, a.Name)
		}
		complete[a.Name] = a.Complete
		def.Arguments = append(def.Arguments, mcp.PromptArgument{
			Name: a.Name, Title: a.Title, Description: a.Description, Required: a.Required,
		})
		if a.Required {
			required = append(required, a.Name)
		}
	}
	route := middleware.NewRoute(mcp.MethodPromptsGet, p.Name, p.Name)
	to := s.routes.target(route, auth.Operation{Kind: auth.KindPrompt, Name: p.Name}, s.routes.serve(s.promptHandler(required, h)), how)
	to.arguments = complete
	if _, err := s.prompts.enter(p.Name, def, to); err != nil {
		return err
	}
	s.completes(complete)
	return nil
}

// promptHandler checks the arguments and the result of a handler.
func (s *Server) promptHandler(required []string, h PromptHandler) callHandler {
	return func(ctx context.Context, call *Call) (mcp.Result, error) {
		raw := era.CoreOf(call.Request).Arguments
		held, err := s.validator.Hold(call.dialog.Core, reflect.TypeFor[map[string]*string](), raw)
		if err != nil {
			return nil, err
		}
		call.dialog.Hold(held)
		args, err := promptArguments(raw, required)
		if err != nil {
			return nil, err
		}
		result, err := h(ctx, call, args)
		if err != nil {
			return nil, err
		}
		return result, promptFault(result)
	}
}

// promptArguments returns the arguments of a prompts/get request.
func promptArguments(raw jsontext.Value, required []string) (map[string]string, error) {
	args := map[string]string{}
	if raw != nil {
		texts := wire.Members(raw, func(name, value jsontext.Value) bool {
			isText := value.Kind() == '"'
			if isText {
				args[string(jsonvalue.Unquote(name))] = string(jsonvalue.Unquote(value))
			}
			return isText
		})
		if !texts {
			return nil, mcp.NewError(mcp.CodeInvalidParams, "params.arguments must be an object whose members are strings")
		}
	}
	var missing []string
	for _, name := range required {
		if _, ok := args[name]; !ok {
			missing = append(missing, fmt.Sprintf("%q", name))
		}
	}
	if missing != nil {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "missing required arguments: %s", strings.Join(missing, ", "))
	}
	return args, nil
}

// promptFault returns an error for a result that is no valid prompt.
func promptFault(result *mcp.GetPromptResult) error {
	if result == nil {
		return errors.New("the handler returned neither a result nor an error")
	}
	for i, m := range result.Messages {
		if isNil(m.Content) || m.Role != mcp.RoleUser && m.Role != mcp.RoleAssistant {
			return fmt.Errorf("message %d of the prompt needs a role and content", i)
		}
	}
	return nil
}

// RemovePrompts removes prompts by name. It ignores unknown names. Running requests go on.
func (s *Server) RemovePrompts(names ...string) { s.prompts.remove(names...) }

// unknownPrompt answers requests that name no registered prompt.
func unknownPrompt(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	in := era.CoreOf(req)
	if !in.HasName {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.name is missing")
	}
	return nil, noPrompt(in.Name)
}

func noPrompt(name string) *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidParams, "there is no prompt %q", cut(name, 128))
}
