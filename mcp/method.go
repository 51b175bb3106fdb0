package mcp

// Methods that a client calls. The comment names the era when it is only one.
const (
	MethodDiscover      = "server/discover" // modern
	MethodInitialize    = "initialize"      // legacy
	MethodPing          = "ping"            // legacy, both directions
	MethodToolsList     = "tools/list"
	MethodToolsCall     = "tools/call"
	MethodPromptsList   = "prompts/list"
	MethodPromptsGet    = "prompts/get"
	MethodResourcesList = "resources/list"
	MethodTemplatesList = "resources/templates/list"
	MethodResourcesRead = "resources/read"
	MethodComplete      = "completion/complete"
	MethodSubscriptions = "subscriptions/listen"  // modern
	MethodSubscribe     = "resources/subscribe"   // legacy
	MethodUnsubscribe   = "resources/unsubscribe" // legacy
	MethodSetLogLevel   = "logging/setLevel"      // legacy
	MethodTasksGet      = "tasks/get"             // modern, extension
	MethodTasksUpdate   = "tasks/update"          // modern, extension
	MethodTasksCancel   = "tasks/cancel"          // modern, extension
)

// Methods by which a server asks the client. A legacy client is sent a request and
// must have declared the method in initialize; a modern one finds it in an
// [InputRequiredResult] and must have declared it with its own request.
const (
	MethodSampling    = "sampling/createMessage"
	MethodElicitation = "elicitation/create"
	MethodRootsList   = "roots/list"
)

// Notifications.
const (
	NotificationCancelled            = "notifications/cancelled"
	NotificationInitialized          = "notifications/initialized" // legacy
	NotificationProgress             = "notifications/progress"
	NotificationMessage              = "notifications/message"
	NotificationToolsListChanged     = "notifications/tools/list_changed"
	NotificationPromptsListChanged   = "notifications/prompts/list_changed"
	NotificationResourcesListChanged = "notifications/resources/list_changed"
	NotificationResourceUpdated      = "notifications/resources/updated"
	NotificationSubscribed           = "notifications/subscriptions/acknowledged" // modern
	NotificationRootsListChanged     = "notifications/roots/list_changed"         // legacy, from the client
	NotificationTasks                = "notifications/tasks"                      // modern, extension
)

// NameMember returns the member of params that names the target of a method, which
// the HTTP header Mcp-Name repeats: "name", "uri", "taskId", or "" if the method has
// no target.
func NameMember(method string) string {
	switch method {
	case MethodToolsCall, MethodPromptsGet:
		return "name"
	case MethodResourcesRead, MethodSubscribe, MethodUnsubscribe:
		return "uri"
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel:
		return "taskId"
	}
	return ""
}

// Methods lists the methods and notifications that a client may send. The caller
// owns the slice.
func Methods() []string {
	return []string{
		MethodDiscover, MethodInitialize, MethodPing, MethodToolsList, MethodToolsCall, MethodPromptsList,
		MethodPromptsGet, MethodResourcesList, MethodTemplatesList, MethodResourcesRead, MethodComplete,
		MethodSubscriptions, MethodSubscribe, MethodUnsubscribe, MethodSetLogLevel, MethodTasksGet,
		MethodTasksUpdate, MethodTasksCancel, NotificationCancelled, NotificationInitialized,
		NotificationProgress, NotificationRootsListChanged,
	}
}
