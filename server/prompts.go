package server

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

var _ = feature((*Server).addPrompts)

// addPrompts registers the methods of the prompts feature (specification: "Prompts").
func (s *Server) addPrompts() {
	s.prompts = table[*mcp.Prompt]{kind: ItemPrompt, changed: func() { s.changed(change{kind: promptsChanged}) }}
	s.announce(func(c *mcp.ServerCapabilities) {
		if s.prompts.used() {
			c.Prompts = &mcp.PromptsCapability{ListChanged: true}
		}
	})
	s.handle(&method{name: mcp.MethodPromptsList, eras: inBoth, advertised: s.prompts.used, handler: listOf(s, &s.prompts,
		func(defs []*mcp.Prompt, next string, hint mcp.CacheHint) mcp.Result {
			return &mcp.ListPromptsResult{Prompts: defs, NextCursor: next, CacheHint: hint}
		})})
	s.handle(&method{
		name: mcp.MethodPromptsGet, eras: inBoth, advertised: s.prompts.used,
		handler: unknownPrompt, targets: s.prompts.target,
	})
}

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
	in := coreOf(req)
	if !in.HasName {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.name is missing")
	}
	return nil, noPrompt(in.Name)
}

func noPrompt(name string) *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidParams, "there is no prompt %q", cut(name, 128))
}
