package server

import (
	"context"
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// enterTool enters a tool whose definition was checked.
func (s *Server) enterTool(
	def *mcp.Tool, params []paramHeader, h callHandler, how serving,
) error {
	if err := how.check(ItemTool, def.Name); err != nil {
		return err
	}
	route := middleware.NewRoute(mcp.MethodToolsCall, def.Name, def.Name)
	to := s.routes.target(route, Item{Kind: ItemTool, Name: def.Name}, withParams(params, s.routes.serve(h)), how, unknownTool)
	_, err := s.tools.enter(def.Name, def, to)
	return err
}

// RemoveTools removes tools by name; unknown names are ignored. Calls that run
// already go on.
func (s *Server) RemoveTools(names ...string) { s.tools.remove(names...) }

// unknownTool answers the calls that name no registered tool.
func unknownTool(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	in := era.CoreOf(req)
	if !in.HasName {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.name is missing")
	}
	return nil, mcp.NewError(mcp.CodeInvalidParams, "there is no tool %q", cut(in.Name, 128))
}

// checkToolName enforces the form that clients rely on.
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
