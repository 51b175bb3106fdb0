package server

import (
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// The capabilities that rows of the table of methods name.
const (
	capabilityPrompts     = "prompts"
	capabilityResources   = "resources"
	capabilityCompletions = "completions"
)

// capabilityTable is the table of the server's capabilities. Extensions are not in it.
func (s *Server) capabilityTable() []capability {
	return []capability{
		{"logging", nil, func(c *mcp.ServerCapabilities) { c.Logging = &struct{}{} }},
		{"tools", nil, func(c *mcp.ServerCapabilities) { c.Tools = &mcp.ToolsCapability{ListChanged: true} }},
		{capabilityPrompts, s.prompts.used, func(c *mcp.ServerCapabilities) {
			c.Prompts = &mcp.PromptsCapability{ListChanged: true}
		}},
		{capabilityResources, s.hasResources, func(c *mcp.ServerCapabilities) {
			c.Resources = &mcp.ResourcesCapability{ListChanged: true, Subscribe: true}
		}},
		{capabilityCompletions, s.completion.Load, func(c *mcp.ServerCapabilities) { c.Completions = &struct{}{} }},
	}
}

// announced returns what the server announces to the clients of an era.
func (s *Server) announced(in era.Set) (c mcp.ServerCapabilities) {
	for _, row := range s.capabilities {
		if row.on == nil || row.on() {
			row.announce(&c)
		}
	}
	c.Extensions = s.extensions.announced(in)
	return c
}
