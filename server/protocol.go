package server

import (
	"context"
	"maps"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// A method is one protocol method that the server serves. Features register
// theirs; nothing else knows the list.
type method struct {
	name    string
	eras    era.Set
	handler middleware.Handler
	serving serving
	// targets finds the tool, prompt or resource that a request names; nil for a method
	// without targets. Without a match the method's own handler answers.
	targets func(name string) *target
	// capability is the name of the one that the method belongs to. Without it the server
	// answers that it has nothing for the method. Empty for a method that is always there.
	capability string
	// own: the method is not the protocol's. It may belong to an extension.
	own       bool
	extension string
	// absent: an option would turn the method on.
	absent bool
	// handshake, beforeInitialize and subscription are explained at session.Route.
	handshake, beforeInitialize, subscription bool

	route *session.Route
	// advertised is the capability's condition; nil is always.
	advertised func() bool
}

// methodTable holds the methods.
type methodTable struct {
	mu     sync.RWMutex
	byName map[string]*method
	// other serves the methods that do not exist, under one label.
	other *session.Route
}

// put registers a method that has a route. replaced says that there was one of its name.
func (t *methodTable) put(m *method) (replaced bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	replaced = t.byName[m.name] != nil
	t.byName[m.name] = m
	return replaced
}

func (t *methodTable) get(name string) *method {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[name]
}

func (t *methodTable) remove(which func(*method) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.byName, func(_ string, m *method) bool { return which(m) })
}

// A capability is a row of the table of what the server announces to its clients.
type capability struct {
	name string
	// on reports whether the server has the capability at this moment: a feature may come
	// to life while the server serves. Nil is always.
	on       func() bool
	announce func(*mcp.ServerCapabilities)
}

// A notification is a row of the table of the protocol's notifications that the server
// handles. The session core handles the others.
type notification struct {
	name    string
	handler func(context.Context, *Notice)
}
