package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
)

// publish sends a change to its subscribers. It does not wait for them, and costs next to nothing
// without subscribers.
func (s *Server) publish(kind notify.Kind, name string) (wanted bool) {
	return s.tell(notify.Notification{Topic: notify.Topic{Kind: kind, Name: name}})
}

// ResourceUpdated tells the subscribers of a resource that it has changed. uri may also name a
// part of a resource, below it or behind a question mark or a number sign: an update of
// test://dir/file goes to the subscribers of test://dir, too. ResourceUpdated is safe for
// concurrent use and does not wait for clients; a slow client gets one notification for several
// updates. An update without a subscriber is counted ([mcp.DropNotSubscribed]).
//
// The server itself tells clients that resources were added or removed.
func (s *Server) ResourceUpdated(uri string) {
	uri = strings.ToValidUTF8(uri, "\uFFFD")
	if !s.publish(notify.Resource, uri) {
		s.core.DropNotification(mcp.NotificationResourcesUpdated, mcp.DropNotSubscribed)
		return
	}
	s.changes.updated(uri)
}

// Notify sends a notification of the program, which belongs to no request, to the subscribers
// of an extension. A legacy client is a subscriber if it has declared the extension in
// initialize, and the extension was on then. A modern client subscribes in the filter of
// subscriptions/listen, with a member that is named as the extension and is true, as in
// {"com.example/thing":true}; it must declare the extension, too.
//
// All subscribers get the same params, which must be meant for each of them. The params must
// encode to a JSON object without _meta, or be nil. method must be a constant of the program,
// since it labels a counter; the names of the protocol are an error, and so is an extension
// that was not added.
//
// Notify is safe for concurrent use and does not wait for clients. Each client gets the
// notifications in the order of the calls. If max_pending_updates of them wait for a client,
// later ones are lost for it, and the limit is counted. A legacy HTTP client without an open
// stream gets none.
func (s *Server) Notify(extension, method string, params any) error {
	raw, err := ownParams(method, params)
	if err != nil {
		return err
	}
	if schema.At(raw, "_meta") != nil {
		return fmt.Errorf("server: the params of %s: the member _meta is the server's", method)
	}
	if !s.extensions.notifies(extension) {
		return notAdded(method, extension)
	}
	s.tell(notify.Notification{Topic: notify.Topic{Kind: notify.Extension, Name: extension}, Method: method, Params: raw})
	return nil
}

// ownParams returns the encoded params of a notification of the program.
func ownParams(method string, params any) (jsontext.Value, error) {
	if err := checkOwnName(method); err != nil || params == nil {
		return nil, err
	}
	raw, err := wire.Marshal(nil, params)
	if err != nil {
		return nil, fmt.Errorf("server: encode the params of %s: %w", method, err)
	}
	if jsontext.Value(raw).Kind() != '{' {
		return nil, fmt.Errorf("server: the params of %s must encode to a JSON object", method)
	}
	return raw, nil
}

// catalog implements [notify.Catalog] for a server.
type catalog Server

// Announces implements [notify.Catalog].
func (c *catalog) Announces(kind notify.Kind) bool {
	announced := (*Server)(c).announced(era.Both)
	switch kind {
	case notify.Tools:
		return announced.Tools != nil && announced.Tools.ListChanged
	case notify.Prompts:
		return announced.Prompts != nil && announced.Prompts.ListChanged
	case notify.Resources:
		return announced.Resources != nil && announced.Resources.ListChanged
	}
	return announced.Resources != nil && announced.Resources.Subscribe
}

// CheckReadable implements [notify.Catalog].
func (c *catalog) CheckReadable(ctx context.Context, req *middleware.Request, uri string) error {
	s := (*Server)(c)
	if !s.access.asked.Load() {
		if s.readable(uri) == nil {
			return noResource(uri)
		}
		return nil
	}
	switch to, d := s.visible(ctx, s.callerOf(req), uri); {
	case to == nil:
		return noResource(uri)
	case needsScopes(d):
		return s.access.challenge(req.Principal, d)
	}
	return nil
}

// Extensions implements [notify.Catalog].
func (c *catalog) Extensions() []string { return c.extensions.ids() }

// Notifies implements [notify.Catalog].
func (c *catalog) Notifies(extension string) bool { return c.extensions.notifies(extension) }

// Tasks implements [notify.Catalog].
func (c *catalog) Tasks(ctx context.Context, req *middleware.Request, ids []string) (map[string]int64, error) {
	if c.tasks == nil {
		return nil, nil
	}
	return c.tasks.Revisions(ctx, req, ids)
}
