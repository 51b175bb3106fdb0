package server

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// An Extension is something that a server can do beyond the protocol and that a
// client may know of (specification: "Extensions"). It is announced to every client,
// in both eras. What it consists of is added with [AddMethod], [AddNotification],
// [Call.Notify] and [Server.Notify], or is a convention about tools, resources and their _meta members.
type Extension struct {
	// ID is a reverse-DNS prefix and a name, as in "com.example/thing".
	ID string
	// Settings is announced with the extension. It must encode to a JSON object; nil
	// stands for {}, which means that there is nothing to say.
	Settings any
}

// AddExtension turns an extension on, or gives the one that is on other settings; clients
// that were told of it before are not told again, as the protocol has no notification of
// that. It panics on a mistake in the definition; see [TryAddExtension].
func AddExtension(s *Server, e Extension) {
	must(TryAddExtension(s, e))
}

// TryAddExtension is [AddExtension] that returns the error: for an id that is none, for
// settings that are no object, and for an extension that has an option of its own (see
// [WithTasks]). Then everything is as it was.
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

// RemoveExtensions turns extensions off, and removes the methods and the notifications
// that were registered as theirs: without it nobody could have declared what they need.
// Unknown ids are ignored, and so is the extension of [WithTasks], which is on for good.
// Requests that run already go on. Clients that were told of the extension before are not
// told that it has gone: the protocol has no notification of that.
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

// Extension returns what the client has declared about an extension: its settings,
// a JSON object that is often {}, and whether it has declared it at all, with this
// request or, in the legacy era, in initialize.
func (c *Call) Extension(id string) (settings jsontext.Value, declared bool) {
	return era.Extension(c.core.Inbound, c.core.Session(), id)
}

// ifDeclared answers with the error of the caller's era if the caller has not
// declared an extension. An empty id stands for none.
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

// checkExtends checks what a method or a notification is registered with.
func (s *Server) checkExtends(name, extension string, how serving) error {
	if err := checkOwnName(name); err != nil {
		return err
	}
	if extension != "" && !s.extensions.on(extension) {
		return notAdded(name, extension)
	}
	return how.check("method", name)
}
