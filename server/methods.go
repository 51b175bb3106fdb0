package server

import (
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// protocolMethods is the table of the protocol's methods.
func (s *Server) protocolMethods() []*method {
	return []*method{
		{name: mcp.MethodServerDiscover, eras: era.Modern, handler: s.discover, control: true},
		{name: mcp.MethodInitialize, eras: era.Legacy, handler: s.initialize, handshake: true, beforeInitialize: true, control: true},
		{name: mcp.MethodPing, eras: era.Legacy, handler: ping, beforeInitialize: true, control: true},
		{name: mcp.MethodLoggingSetLevel, eras: era.Legacy, handler: setLogLevel},

		{name: mcp.MethodToolsList, eras: era.Both, handler: listOf(s, &s.tools, toolList)},
		{name: mcp.MethodToolsCall, eras: era.Both, handler: unknownTool, targets: s.tools.target},

		{name: mcp.MethodPromptsList, eras: era.Both, capability: capabilityPrompts, handler: listOf(s, &s.prompts, promptList)},
		{name: mcp.MethodPromptsGet, eras: era.Both, capability: capabilityPrompts, handler: unknownPrompt, targets: s.prompts.target},

		{name: mcp.MethodResourcesList, eras: era.Both, capability: capabilityResources, handler: listOf(s, &s.resources, resourceList)},
		{name: mcp.MethodResourcesTemplatesList, eras: era.Both, capability: capabilityResources, handler: listOf(s, &s.templates, templateList)},
		{name: mcp.MethodResourcesRead, eras: era.Both, capability: capabilityResources, handler: unreadable, targets: s.readable},
		{name: mcp.MethodResourcesSubscribe, eras: era.Legacy, capability: capabilityResources, handler: s.subscriptions.Subscribe},
		{name: mcp.MethodResourcesUnsubscribe, eras: era.Legacy, capability: capabilityResources, handler: s.subscriptions.Unsubscribe},

		{name: mcp.MethodCompletionComplete, eras: era.Both, capability: capabilityCompletions, handler: s.routes.serve(s.complete)},
		{name: mcp.MethodSubscriptionsListen, eras: era.Modern, handler: s.subscriptions.Listen, subscription: true},

		{name: mcp.MethodTasksGet, eras: era.Modern, absent: s.tasks == nil, handler: s.tasks.Get},
		{name: mcp.MethodTasksUpdate, eras: era.Modern, absent: s.tasks == nil, handler: s.tasks.Update},
		{name: mcp.MethodTasksCancel, eras: era.Modern, absent: s.tasks == nil, handler: s.tasks.Cancel, control: true},
	}
}

// protocolNotifications is the table of the protocol's notifications that the server handles.
func (s *Server) protocolNotifications() []notification {
	return []notification{
		{mcp.NotificationInitialized, s.initialized},
		{mcp.NotificationRootsListChanged, s.rootsListChanged()},
	}
}
