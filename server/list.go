package server

import (
	"context"
	"slices"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// defaultPageSize is how many entries one page of a list has by default.
const defaultPageSize = 1000

// listOf returns the handler of a list method. It returns the page behind the cursor, with the
// items that the caller may see.
func listOf[T comparable](s *Server, r *registry[T], result func(defs []T, next string, hint mcp.CacheHint) mcp.Result) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		cursor, err := cursorOf(req)
		if err != nil {
			return nil, err
		}
		var visible func(to *target) bool
		if s.access.restricts {
			who := s.callerOf(req)
			op := who.fill(new(auth.Operation)) // one for all items
			visible = func(to *target) bool { return s.shows(ctx, who, to, op) }
		}
		defs, next, err := r.page(cursor, s.pageSize, visible)
		if err != nil {
			return nil, err
		}
		if visible == nil && s.wrapped { // middlewares may change it
			defs = slices.Clone(defs)
		}
		return result(defs, next, s.listHint()), nil
	}
}

// cursorOf returns the cursor of a list request.
func cursorOf(req *middleware.Request) (string, error) {
	var params struct {
		Cursor string `json:"cursor"`
	}
	if req.Params == nil {
		return "", nil
	}
	if err := wire.Unmarshal(req.Params, &params); err != nil {
		return "", mcp.NewError(mcp.CodeInvalidParams, "params.cursor must be a string")
	}
	return params.Cursor, nil
}

func toolList(defs []*mcp.Tool, next string, hint mcp.CacheHint) mcp.Result {
	return &mcp.ListToolsResult{Tools: defs, NextCursor: next, CacheHint: hint}
}

func promptList(defs []*mcp.Prompt, next string, hint mcp.CacheHint) mcp.Result {
	return &mcp.ListPromptsResult{Prompts: defs, NextCursor: next, CacheHint: hint}
}

func resourceList(defs []*mcp.Resource, next string, hint mcp.CacheHint) mcp.Result {
	return &mcp.ListResourcesResult{Resources: defs, NextCursor: next, CacheHint: hint}
}

func templateList(defs []*mcp.ResourceTemplate, next string, hint mcp.CacheHint) mcp.Result {
	return &mcp.ListResourceTemplatesResult{ResourceTemplates: defs, NextCursor: next, CacheHint: hint}
}

// listHint returns the cache hint of lists and of server/discover.
func (s *Server) listHint() mcp.CacheHint {
	scope := mcp.CachePublic
	if s.access.restricts {
		scope = mcp.CachePrivate
	}
	return mcp.CacheFor(s.listTTL, scope)
}
