package server

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// toolTable holds the registered tools in the order of registration.
type toolTable struct {
	mu     sync.RWMutex
	order  []*mcp.Tool
	byName map[string]*target
}

// addTools registers the methods of the tools feature.
func (s *Server) addTools() {
	s.tools.byName = map[string]*target{}
	s.handle(&method{name: mcp.MethodToolsList, eras: inBoth, handler: s.listTools})
	s.handle(&method{name: mcp.MethodToolsCall, eras: inBoth, handler: unknownTool, targets: s.tools.target})
}

// addTool enters a tool whose definition was checked.
func (s *Server) addTool(def *mcp.Tool, params []paramHeader, h middleware.Handler, links []middleware.Middleware) error {
	if hasNil(links) {
		return fmt.Errorf("server: tool %q: a middleware is nil", def.Name)
	}
	route := s.newRoute(mcp.MethodToolsCall, def.Name, h, links...)
	s.tools.mu.Lock()
	defer s.tools.mu.Unlock()
	if s.tools.byName[def.Name] != nil {
		return fmt.Errorf("server: there is a tool %q already", def.Name)
	}
	s.tools.byName[def.Name] = &target{route: route, params: params}
	s.tools.order = append(s.tools.order, def)
	return nil
}

// RemoveTools removes tools by name; unknown names are ignored. Calls that run
// already go on.
func (s *Server) RemoveTools(names ...string) {
	s.tools.mu.Lock()
	defer s.tools.mu.Unlock()
	for _, name := range names {
		delete(s.tools.byName, name)
	}
	s.tools.order = slices.DeleteFunc(slices.Clone(s.tools.order), func(t *mcp.Tool) bool {
		return slices.Contains(names, t.Name)
	})
}

func (t *toolTable) target(name string) *target {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[name]
}

func (s *Server) listTools(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	if err := firstPage(req); err != nil {
		return nil, err
	}
	s.tools.mu.RLock()
	defer s.tools.mu.RUnlock()
	return &mcp.ListToolsResult{Tools: slices.Clone(s.tools.order)}, nil
}

// firstPage refuses the cursors that the server has not issued. It issues none yet:
// a list is one page. An empty cursor asks for the first page, as none does.
func firstPage(req *middleware.Request) error {
	var params struct {
		Cursor string `json:"cursor"`
	}
	if req.Params() == nil {
		return nil
	}
	if err := json.Unmarshal(req.Params(), &params); err != nil {
		return mcp.NewError(mcp.CodeInvalidParams, "params.cursor must be a string")
	}
	if params.Cursor != "" {
		return mcp.NewError(mcp.CodeInvalidParams, "params.cursor is none that this server has issued")
	}
	return nil
}

// unknownTool answers the calls that name no registered tool.
func unknownTool(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	in := req.Core()
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
