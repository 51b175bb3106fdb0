// Package notify sends notifications to the clients that have subscribed to them. There are two
// kinds. Of the changes of one topic a client needs only the last one. Events are sent one by
// one. Each subscriber has a feed with a queue for each kind, and a hub knows the feeds of each
// topic.
package notify

import (
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Kind is what a topic is about.
type Kind uint8

const (
	Tools     Kind = iota // the list of tools
	Prompts               // the list of prompts
	Resources             // the lists of resources and of templates
	numLists              // how many kinds are about a list

	Resource  // one resource, by its URI
	Task      // one task, by its id
	Extension // what happens in an extension, by the id of the extension
)

// A Topic is what a client can subscribe to.
type Topic struct {
	Kind Kind
	Name string // of a list: that of the changed item, or ""; subscribers have ""
}

// A Notification is sent to the subscribers of a topic. A notification about an extension is an
// event: each one is sent, in order; a subscriber that does not read loses the newest. All other
// notifications are changes: they say that something has changed, so that only the last of
// several waiting ones is sent.
type Notification struct {
	Topic
	// Method is that of an event.
	Method string
	// Params are those of an event, and of a task: a JSON object without _meta, or nil. They
	// are shared by all subscribers.
	Params []byte
	// Revision is that of a task. Of two changes of one task the later has the higher one.
	Revision int64
	// Items are what has changed, as the [Catalog] knows it, for the decision who is told: of a list
	// whose topic has a name, the items of that name. Without items all subscribers are told.
	Items []any
}

// event reports whether the notification is an event, and not a change.
func (n Notification) event() bool { return n.Kind == Extension }

// method returns the method of the notification.
func (n Notification) method() string {
	if n.event() {
		return n.Method
	}
	return [...]string{
		Tools:     mcp.NotificationToolsListChanged,
		Prompts:   mcp.NotificationPromptsListChanged,
		Resources: mcp.NotificationResourcesListChanged,
		Resource:  mcp.NotificationResourcesUpdated,
		Task:      mcp.NotificationTasks,
	}[n.Kind]
}

// params returns the params of the notification, or nil.
func (n Notification) params() []byte {
	if n.Kind == Resource {
		return append(wire.AppendString([]byte(`{"uri":`), n.Name), '}')
	}
	return n.Params
}

// Wholes yields a topic and what it may be a part of, the nearest first: of a resource other resources, of an
// item its list.
func (t Topic) Wholes(yield func(Topic) bool) {
	if !yield(t) {
		return
	}
	if t.Kind < numLists && t.Name != "" {
		yield(Topic{Kind: t.Kind})
	}
	if t.Kind != Resource {
		return
	}
	for i := len(t.Name) - 1; i > 0; i-- {
		switch t.Name[i] {
		case '/':
			if i+1 < len(t.Name) && !yield(Topic{t.Kind, t.Name[:i+1]}) {
				return
			}
			if t.Name[i-1] == '/' { // the next position yields the same
				continue
			}
			fallthrough
		case '?', '#':
			if !yield(Topic{t.Kind, t.Name[:i]}) {
				return
			}
		}
	}
}
