package mcp

import (
	"maps"
	"slices"
)

// methods are the methods and notifications that a client may send, each with the
// member of params that names its target, or "".
var methods = map[string]string{
	MethodServerDiscover:         "",
	MethodInitialize:             "",
	MethodPing:                   "",
	MethodToolsList:              "",
	MethodToolsCall:              "name",
	MethodPromptsList:            "",
	MethodPromptsGet:             "name",
	MethodResourcesList:          "",
	MethodResourcesTemplatesList: "",
	MethodResourcesRead:          "uri",
	MethodResourcesSubscribe:     "uri",
	MethodResourcesUnsubscribe:   "uri",
	MethodCompletionComplete:     "",
	MethodLoggingSetLevel:        "",
	MethodSubscriptionsListen:    "",
	MethodTasksGet:               "taskId",
	MethodTasksUpdate:            "taskId",
	MethodTasksCancel:            "taskId",

	NotificationCancelled:        "",
	NotificationInitialized:      "",
	NotificationProgress:         "",
	NotificationRootsListChanged: "",
}

// Methods lists the methods and notifications that a client may send. The caller
// owns the slice.
func Methods() []string { return slices.Sorted(maps.Keys(methods)) }

// NameMember returns the member of params that names the target of a method, which
// the HTTP header Mcp-Name repeats: "name", "uri", "taskId", or "" if the method has
// no target.
func NameMember(method string) string { return methods[method] }

// The methods of questions to the client. A legacy client gets a request and
// must have declared the method in initialize; a modern one finds it in an
// [InputRequiredResult] and must have declared it with its own request.
const (
	MethodSamplingCreateMessage = "sampling/createMessage"
	MethodElicitationCreate     = "elicitation/create"
	MethodRootsList             = "roots/list"
)

// Notifications.
const (
	NotificationCancelled                 = "notifications/cancelled"
	NotificationInitialized               = "notifications/initialized" // legacy
	NotificationProgress                  = "notifications/progress"
	NotificationMessage                   = "notifications/message"
	NotificationToolsListChanged          = "notifications/tools/list_changed"
	NotificationPromptsListChanged        = "notifications/prompts/list_changed"
	NotificationResourcesListChanged      = "notifications/resources/list_changed"
	NotificationResourcesUpdated          = "notifications/resources/updated"
	NotificationSubscriptionsAcknowledged = "notifications/subscriptions/acknowledged" // modern
	NotificationRootsListChanged          = "notifications/roots/list_changed"         // legacy, from the client
	NotificationElicitationComplete       = "notifications/elicitation/complete"       // 2025-11-25 alone
	NotificationTasks                     = "notifications/tasks"                      // modern, extension
)
