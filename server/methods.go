package server

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// protocolMethods is the table of the protocol's methods.
func (s *Server) protocolMethods() []*method {
	return []*method{
		{name: mcp.MethodServerDiscover, eras: inModern, handler: s.discover},
		{name: mcp.MethodInitialize, eras: inLegacy, handler: s.initialize, handshake: true, beforeInitialize: true},
		{name: mcp.MethodPing, eras: inLegacy, handler: ping, beforeInitialize: true},
		{name: mcp.MethodLoggingSetLevel, eras: inLegacy, handler: setLogLevel},

		{name: mcp.MethodToolsList, eras: inBoth, handler: listOf(s, &s.tools, toolList)},
		{name: mcp.MethodToolsCall, eras: inBoth, handler: unknownTool, targets: s.tools.target},

		{name: mcp.MethodPromptsList, eras: inBoth, capability: capabilityPrompts, handler: listOf(s, &s.prompts, promptList)},
		{name: mcp.MethodPromptsGet, eras: inBoth, capability: capabilityPrompts, handler: unknownPrompt, targets: s.prompts.target},

		{name: mcp.MethodResourcesList, eras: inBoth, capability: capabilityResources, handler: listOf(s, &s.resources, resourceList)},
		{name: mcp.MethodResourcesTemplatesList, eras: inBoth, capability: capabilityResources, handler: listOf(s, &s.templates, templateList)},
		{name: mcp.MethodResourcesRead, eras: inBoth, capability: capabilityResources, handler: s.read, targets: s.readable},
		{name: mcp.MethodResourcesSubscribe, eras: inLegacy, capability: capabilityResources, handler: s.push.subscribe},
		{name: mcp.MethodResourcesUnsubscribe, eras: inLegacy, capability: capabilityResources, handler: s.push.unsubscribe},

		{name: mcp.MethodCompletionComplete, eras: inBoth, capability: capabilityCompletions, handler: s.serve(s.complete)},
		{name: mcp.MethodSubscriptionsListen, eras: inModern, handler: s.listen, subscription: true},

		{name: mcp.MethodTasksGet, eras: inModern, absent: s.tasks == nil, handler: s.taskHandler(s.tasks.get)},
		{name: mcp.MethodTasksUpdate, eras: inModern, absent: s.tasks == nil, handler: s.taskHandler(s.tasks.update)},
		{name: mcp.MethodTasksCancel, eras: inModern, absent: s.tasks == nil, handler: s.taskHandler(s.tasks.cancel)},
	}
}

// A notification is a row of the table of the protocol's notifications that the server
// handles. The session core handles the others.
type notification struct {
	name    string
	handler func(context.Context, *Notice)
}

// protocolNotifications is that table.
func (s *Server) protocolNotifications() []notification {
	return []notification{
		{mcp.NotificationInitialized, s.initialized},
		{mcp.NotificationRootsListChanged, s.rootsListChanged()},
	}
}
