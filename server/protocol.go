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

// A method is a method that the server serves: one of the protocol, or one of the program.
type method struct {
	name    string
	eras    era.Set
	handler middleware.Handler
	serving serving
	// targets finds the tool, prompt or resource that a request names; nil for a method
	// without targets. Without a match the method's own handler answers.
	targets func(name string) *target
	// capability names the capability that the method belongs to, or is "". While the server
	// does not have it, calls get an error.
	capability string
	// own says that the method is one of the program. It may belong to an extension.
	own       bool
	extension string
	// absent says that the option for the method was not given.
	absent bool
	// handshake, beforeInitialize, subscription and control are explained at session.Route.
	handshake, beforeInitialize, subscription, control bool

	route *session.Route
	// advertised is the capability's condition; nil is always.
	advertised func() bool
}

// methodRegistry holds the methods.
type methodRegistry struct {
	mu     sync.RWMutex
	byName map[string]*method
	// other serves unknown methods, under one label.
	other *session.Route
}

// put registers a method that has a route. replaced reports whether there was one with its name.
func (t *methodRegistry) put(m *method) (replaced bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	replaced = t.byName[m.name] != nil
	t.byName[m.name] = m
	return replaced
}

func (t *methodRegistry) get(name string) *method {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[name]
}

func (t *methodRegistry) remove(which func(*method) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.byName, func(_ string, m *method) bool { return which(m) })
}

// A capability is a row of the table of what the server announces to its clients.
type capability struct {
	name string
	// on reports whether the server has the capability now. That may change while the server
	// serves. Nil is always.
	on       func() bool
	announce func(*mcp.ServerCapabilities)
}

// A notification is a row of the table of the protocol's notifications that the server
// handles. The session core handles the others.
type notification struct {
	name    string
	handler func(context.Context, *Notice)
}
