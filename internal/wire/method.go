package wire

import "github.com/vitrine-mcp/vitrine/mcp"

// Methods with a target that package mcp does not name.
const (
	methodPromptsGet           = "prompts/get"
	methodResourcesRead        = "resources/read"
	methodResourcesSubscribe   = "resources/subscribe"
	methodResourcesUnsubscribe = "resources/unsubscribe"
	methodTasksGet             = "tasks/get"
	methodTasksUpdate          = "tasks/update"
	methodTasksCancel          = "tasks/cancel"
)

// internMethod returns b as a string, without allocating for the methods of the
// protocol, whether Vitrine implements them or not.
func internMethod(b []byte) string {
	switch string(b) {
	case mcp.MethodToolsCall:
		return mcp.MethodToolsCall
	case methodPromptsGet:
		return methodPromptsGet
	case methodResourcesRead:
		return methodResourcesRead
	case methodResourcesSubscribe:
		return methodResourcesSubscribe
	case methodResourcesUnsubscribe:
		return methodResourcesUnsubscribe
	case methodTasksGet:
		return methodTasksGet
	case methodTasksUpdate:
		return methodTasksUpdate
	case methodTasksCancel:
		return methodTasksCancel
	case mcp.NotificationCancelled:
		return mcp.NotificationCancelled
	case mcp.MethodDiscover:
		return mcp.MethodDiscover
	case mcp.MethodInitialize:
		return mcp.MethodInitialize
	case mcp.MethodPing:
		return mcp.MethodPing
	case mcp.MethodToolsList:
		return mcp.MethodToolsList
	case "prompts/list":
		return "prompts/list"
	case "resources/list":
		return "resources/list"
	case "resources/templates/list":
		return "resources/templates/list"
	case "completion/complete":
		return "completion/complete"
	case "logging/setLevel":
		return "logging/setLevel"
	case "subscriptions/listen":
		return "subscriptions/listen"
	case mcp.NotificationInitialized:
		return mcp.NotificationInitialized
	case mcp.NotificationProgress:
		return mcp.NotificationProgress
	case "notifications/roots/list_changed":
		return "notifications/roots/list_changed"
	}
	return string(b)
}
