package mcp

// A SubscriptionFilter says which changes a subscription is about.
type SubscriptionFilter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitzero"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitzero"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitzero"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"` // URIs
	TaskIDs               []string `json:"taskIds,omitempty"`               // extension
}

// ListenParams is the params member of subscriptions/listen (modern).
type ListenParams struct {
	Notifications SubscriptionFilter `json:"notifications"`
}

// SubscribedParams is the params member of notifications/subscriptions/acknowledged:
// the part of the filter that the server honours.
type SubscribedParams struct {
	Notifications SubscriptionFilter `json:"notifications"`
	Meta          Meta               `json:"_meta"`
}

// ResourceParams is the params member of resources/read, resources/subscribe,
// resources/unsubscribe and notifications/resources/updated.
type ResourceParams struct {
	URI  string `json:"uri"`
	Meta Meta   `json:"_meta,omitempty"`
}
