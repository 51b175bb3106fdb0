package server

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// checkPromptName refuses names that do not fit into a label, a log line or a menu.
func checkPromptName(name string) error {
	if name == "" || len(name) > 128 {
		return fmt.Errorf("server: prompt name %q must have 1 to 128 bytes", cut(name, 128))
	}
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable) {
		return fmt.Errorf("server: prompt name %q has a character that cannot be printed", name)
	}
	return nil
}

// RemovePrompts removes prompts by name; unknown names are ignored. Requests that run
// already go on.
func (s *Server) RemovePrompts(names ...string) { s.prompts.remove(names...) }

// unknownPrompt answers the requests that name no registered prompt.
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
