package mcp

// Methods that a client calls. The comment names the era when it is only one.
const (
	MethodDiscover   = "server/discover" // modern
	MethodInitialize = "initialize"      // legacy
	MethodPing       = "ping"            // legacy, both directions
	MethodToolsList  = "tools/list"
	MethodToolsCall  = "tools/call"
)

// Methods that a server calls, in the legacy era. Each but ping must be declared by
// the client in initialize.
const (
	MethodSampling    = "sampling/createMessage"
	MethodElicitation = "elicitation/create"
	MethodRootsList   = "roots/list"
)

// Notifications.
const (
	NotificationCancelled   = "notifications/cancelled"
	NotificationInitialized = "notifications/initialized" // legacy
	NotificationProgress    = "notifications/progress"
)
