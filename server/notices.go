package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// A Notice is a notification that a client has sent.
type Notice struct {
	core    *session.Core
	in      *session.Inbound
	session *session.Session // nil for a modern HTTP exchange
}

// Method returns the name under which the notification was sent.
func (n *Notice) Method() string { return n.in.Method }

// Extension returns what the client has declared about an extension, as
// [Call.Extension] does. Modern clients need not declare anything with a notification.
func (n *Notice) Extension(id string) (settings jsontext.Value, declared bool) {
	return era.Extension(n.in, n.session, id)
}

// Principal returns the principal of the client, as the authenticator has found it. It is nil
// without [WithAuthenticator].
func (n *Notice) Principal() *auth.Principal { return n.in.Conn.Principal }

// SessionID returns the Mcp-Session-Id of a legacy HTTP session, or "". On a byte stream
// ctx tells clients apart: it has the values of the context of [Server.ServePipe].
func (n *Notice) SessionID() string {
	if n.session == nil {
		return ""
	}
	return n.session.ID()
}

// Header returns the HTTP header of the exchange, nil on other transports. It must
// not be changed.
func (n *Notice) Header() http.Header { return n.in.Header }

// A noticeHandler handles the notifications of one name.
type noticeHandler struct {
	handle func(context.Context, *Notice)
	// own says that the notification is one of the program. It may belong to an extension.
	own       bool
	extension string
}

// notices has the handlers of notifications.
type notices struct {
	mu     sync.RWMutex
	byName map[string]noticeHandler

	runMu   sync.Mutex
	running map[string]int // handlers that run, by the name of the notification
	quiet   chan struct{}  // closed when no handler runs; nil while nobody waits
}

// put registers a handler. replaced reports whether there was one.
func (t *notices) put(name string, h noticeHandler) (replaced bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName == nil {
		t.byName = map[string]noticeHandler{}
	}
	_, replaced = t.byName[name]
	t.byName[name] = h
	return replaced
}

func (t *notices) remove(which func(name string, h noticeHandler) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.byName, which)
}

func (t *notices) handle(ctx context.Context, n *Notice) {
	t.mu.RLock()
	h, known := t.byName[n.in.Method]
	t.mu.RUnlock()
	if known {
		t.runs(n.in.Method, 1)
		defer t.runs(n.in.Method, -1)
		h.handle(ctx, n)
	}
}

// runs adds change to the number of running handlers of a name.
func (t *notices) runs(name string, change int) {
	t.runMu.Lock()
	defer t.runMu.Unlock()
	if t.running == nil {
		t.running = map[string]int{}
	}
	if t.running[name] += change; t.running[name] == 0 {
		delete(t.running, name)
	}
	if len(t.running) == 0 && t.quiet != nil {
		close(t.quiet)
		t.quiet = nil
	}
}

// idle returns a channel that is closed as soon as no handler runs.
func (t *notices) idle() <-chan struct{} {
	t.runMu.Lock()
	defer t.runMu.Unlock()
	switch {
	case len(t.running) == 0:
		idle := make(chan struct{})
		close(idle)
		return idle
	case t.quiet == nil:
		t.quiet = make(chan struct{})
	}
	return t.quiet
}

// left returns the names of the running handlers, with their numbers.
func (t *notices) left() (names []string) {
	t.runMu.Lock()
	defer t.runMu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(t.running)) {
		names = append(names, fmt.Sprintf("%s (%d)", name, t.running[name]))
	}
	return names
}

// A noticeSender is a notification as the validation of its params sees it.
type noticeSender Notice

// HoldCaller implements [schema.Sender].
func (n *noticeSender) HoldCaller() *share.Caller { return n.core.CallerOf(n.in, n.session) }

// HoldValue implements [schema.Sender].
func (n *noticeSender) HoldValue(bytes int) (*share.Held, error) {
	return n.core.HoldValue(n.in, n.session, bytes)
}
