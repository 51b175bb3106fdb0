package mcp

import "slices"

// MethodSubscriptionsListen is the method of subscriptions (modern).
const MethodSubscriptionsListen = "subscriptions/listen"

// A SubscriptionFilter says which changes a subscription is about.
type SubscriptionFilter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitzero"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitzero"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitzero"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"` // URIs
	TaskIDs               []string `json:"taskIds,omitempty"`               // extension
	// Extensions are further members. Each is the id of an extension, and asks for the
	// notifications that server.Server.Notify sends for it.
	Extensions map[string]bool `json:",embed"`
}

// SubscriptionsListenParams is the params member of subscriptions/listen (modern).
type SubscriptionsListenParams struct {
	Notifications SubscriptionFilter `json:"notifications"`
}

// SubscriptionsAcknowledgedParams is the params member of notifications/subscriptions/acknowledged:
// the part of the filter that the server honours.
type SubscriptionsAcknowledgedParams struct {
	Notifications SubscriptionFilter `json:"notifications"`
	Meta          Meta               `json:"_meta"`
}

// ResourceParams is the params member of resources/read, resources/subscribe,
// resources/unsubscribe and notifications/resources/updated.
type ResourceParams struct {
	URI  string `json:"uri"`
	Meta Meta   `json:"_meta,omitempty"`
}

// A SubscriptionEnd says why a subscription has ended. The values are public API, as
// those of [Cause] are. An end that is also a cause has the same name.
type SubscriptionEnd string

const (
	EndClientCancel     = SubscriptionEnd(CauseClientCancel)
	EndClientDisconnect = SubscriptionEnd(CauseClientDisconnect)
	EndTransportClose   = SubscriptionEnd(CauseTransportClose)
	EndTransportError   = SubscriptionEnd(CauseTransportError)
	EndServerShutdown   = SubscriptionEnd(CauseServerShutdown)
	EndOperator         = SubscriptionEnd(CauseOperator)
	// EndTokenExpired: the token of the caller has expired.
	EndTokenExpired SubscriptionEnd = "token_expired"
	// EndError: the server could not go on.
	EndError SubscriptionEnd = "error"
)

// SubscriptionEnds lists every end. The caller owns the slice.
func SubscriptionEnds() []SubscriptionEnd {
	return []SubscriptionEnd{
		EndClientCancel, EndClientDisconnect, EndTransportClose, EndTransportError, EndServerShutdown, EndOperator,
		EndTokenExpired, EndError,
	}
}

// EndOf returns the end that corresponds to a cause, [EndError] if there is none.
func EndOf(c Cause) SubscriptionEnd {
	if end := SubscriptionEnd(c); slices.Contains(SubscriptionEnds(), end) {
		return end
	}
	return EndError
}
