package server

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// An Extension is something that a server can do beyond the protocol (specification:
// "Extensions"). It is announced to every client, in both eras. Its methods and notifications are
// added with [AddMethod] and [AddNotification] and sent with [Call.Notify] and [Server.Notify]. It
// may also be a convention about tools, resources and their _meta members.
type Extension struct {
	// ID is a reverse-DNS prefix and a name, as in "com.example/thing".
	ID string
	// Settings is announced with the extension. It must encode to a JSON object; nil stands
	// for {}.
	Settings any
}

// AddExtension turns an extension on, or replaces its settings. Clients that know of the extension
// do not learn of new settings, because the protocol has no notification of that. AddExtension
// panics on a mistake in the definition; see [TryAddExtension].
func AddExtension(s *Server, e Extension) {
	must(TryAddExtension(s, e))
}

// TryAddExtension is [AddExtension] that returns the error: for an invalid id, for settings that
// are no object, and for an extension that has an option of its own (see [WithTasks]). After an
// error nothing has changed.
func TryAddExtension(s *Server, e Extension) error {
	if e.ID == mcp.ExtensionTasks {
		return fmt.Errorf("server: extension %s is turned on with WithTasks", e.ID)
	}
	replaced, err := s.extensions.put(e.ID, e.Settings)
	if replaced {
		logReplaced(s.logger, "extension", e.ID, false)
	}
	return err
}

// RemoveExtensions turns extensions off, and removes their methods and notifications, which no
// client could declare any more. It ignores unknown ids and the extension of [WithTasks]. Running
// requests go on. Clients do not learn that an extension was removed, because the protocol has no
// notification of that.
func (s *Server) RemoveExtensions(ids ...string) {
	s.extensions.mu.Lock()
	defer s.extensions.mu.Unlock()
	for _, id := range ids {
		if id == mcp.ExtensionTasks || id == "" {
			continue
		}
		delete(s.extensions.byID, id)
		s.methods.remove(func(m *method) bool { return m.own && m.extension == id })
		s.notices.remove(func(_ string, h noticeHandler) bool { return h.own && h.extension == id })
	}
}

// Extension returns the settings that the client has declared for an extension, a JSON object that
// is often {}, and whether it has declared the extension: with this request or, in the legacy era,
// in initialize.
func (c *Call) Extension(id string) (settings jsontext.Value, declared bool) {
	return era.Extension(c.dialog.Core.Inbound, c.dialog.Core.Session(), id)
}

// ifDeclared returns an error to callers that have not declared an extension. An empty id stands
// for none.
func ifDeclared(id string, h callHandler) callHandler {
	if id == "" {
		return h
	}
	return func(ctx context.Context, call *Call) (mcp.Result, error) {
		if err := era.RequireExtension(call.Request, id); err != nil {
			return nil, err
		}
		return h(ctx, call)
	}
}

// checkExtends checks the definition of a method or a notification.
func (s *Server) checkExtends(name, extension string, how serving) error {
	if err := checkOwnName(name); err != nil {
		return err
	}
	if extension != "" && !s.extensions.on(extension) {
		return notAdded(name, extension)
	}
	return how.check("method", name)
}
