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

// publish tells those who have subscribed of a change. It waits for nobody, and costs next
// to nothing while nobody has.
func (s *Server) publish(kind notify.Kind, name string) (wanted bool) {
	return s.hub.Publish(notify.Notification{Topic: notify.Topic{Kind: kind, Name: name}})
}

// ResourceUpdated tells the clients that have subscribed to a resource that it has
// changed. uri may also name a part of a resource, below it or behind a question mark
// or a number sign: for test://dir/file the subscribers of
// test://dir are told. It may be called from any goroutine and does not wait for clients; a
// slow client is told once of several updates that wait for it. An update
// without a subscriber is counted ([mcp.DropNotSubscribed]).
//
// That resources were added or removed is told without this.
func (s *Server) ResourceUpdated(uri string) {
	if !s.publish(notify.Resource, strings.ToValidUTF8(uri, "\uFFFD")) {
		s.core.DropNotification(mcp.NotificationResourcesUpdated, mcp.DropNotSubscribed)
	}
}

// Notify tells the clients which want to know of an extension that something has
// happened, by a notification of one's own that belongs to no request. Legacy clients
// want to if they have declared the extension in initialize, and it was on then. Modern
// ones ask for it in the filter of subscriptions/listen, by a member that is named as the
// extension and is true, as in {"com.example/thing":true}; they must declare it, too.
//
// All subscribers are told the same: params must have nothing that is not for each of
// them. They must encode to a JSON object without _meta, or be nil. method is a
// constant of the program, since it labels a counter; the names of the protocol are an
// error, and so is an extension that was not added.
//
// Notify may be called from any goroutine and does not wait for clients. Each is told in
// the order of the calls; one that does not read loses what comes when max_pending_updates
// notifications wait for it, which is counted as that limit. To a legacy HTTP client that
// has no stream open, nothing can be told.
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
	s.hub.Publish(notify.Notification{Topic: notify.Topic{Kind: notify.Extension, Name: extension}, Method: method, Params: raw})
	return nil
}

// ownParams returns the params of a notification of one's own.
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

// catalog shows package notify what the server has to tell of.
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
	if (*Server)(c).shownTo(ctx, req, uri) == nil {
		return noResource(uri)
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
