package notify

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// Listen serves subscriptions/listen (specification: "Subscriptions"). It acknowledges the
// subscription and then sleeps: what is told is posted by the feed. All that comes before the
// sleep is in functions of their own, because what they need of the stack would be kept for
// as long.
func (s *Subscriptions) Listen(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	sub := subscription{era.CoreOf(req)}
	feed, err := s.acknowledge(ctx, req, sub)
	if feed != nil {
		defer s.hub.leave(feed)
	}
	if err != nil {
		return nil, err
	}
	return sub.wait(ctx)
}

// acknowledge begins a subscription. The feed, if there is one, must leave the hub in any
// case.
func (s *Subscriptions) acknowledge(ctx context.Context, req *middleware.Request, sub subscription) (*Feed, error) {
	filter, revisions, err := s.granted(ctx, req)
	if err != nil {
		return nil, err
	}
	ack, err := wire.Marshal([]byte(`{"notifications":`), filter)
	if err != nil {
		return nil, err
	}
	feed := s.hub.join(sub.post, topicsOf(filter), revisions) // before the acknowledgement: what changes after it is told
	if err := sub.req.Acknowledge(mcp.NotificationSubscriptionsAcknowledged, sub.appendMeta(append(ack, ','))); err != nil {
		return feed, err
	}
	feed.send()
	return feed, nil
}

// granted returns what the client wants to know and may: what the server announces, and
// what the caller may see of it; and the revisions of the tasks.
func (s *Subscriptions) granted(ctx context.Context, req *middleware.Request) (f mcp.SubscriptionFilter, revisions map[string]int64, err error) {
	if f, err = parseFilter(req.Params, s.catalog.Notifies); err != nil {
		return f, nil, err
	}
	if max(len(f.ResourceSubscriptions), len(f.TaskIDs)) > s.core.Limits().MaxResourceSubscriptions {
		return f, nil, s.tooManyResources()
	}
	for _, id := range slices.Sorted(maps.Keys(f.Extensions)) {
		if err := era.RequireExtension(req, id); err != nil {
			return f, nil, err
		}
	}
	f.ToolsListChanged = f.ToolsListChanged && s.catalog.Announces(Tools)
	f.PromptsListChanged = f.PromptsListChanged && s.catalog.Announces(Prompts)
	f.ResourcesListChanged = f.ResourcesListChanged && s.catalog.Announces(Resources)
	announced := s.catalog.Announces(Resource)
	f.ResourceSubscriptions = slices.DeleteFunc(f.ResourceSubscriptions, func(uri string) bool {
		return !announced || s.catalog.CheckReadable(ctx, req, uri) != nil
	})
	if len(f.TaskIDs) > 0 {
		revisions, err = s.catalog.Tasks(ctx, req, f.TaskIDs)
		f.TaskIDs = slices.DeleteFunc(f.TaskIDs, func(id string) bool { _, known := revisions[id]; return !known })
	}
	if len(f.TaskIDs) == 0 {
		f.TaskIDs = nil
	}
	return f, revisions, err
}

// A subscription is a request that stays open for notifications.
type subscription struct{ req *session.Request }

// wait returns how the subscription has ended.
//
//go:noinline
func (s subscription) wait(ctx context.Context) (mcp.Result, error) {
	select {
	case <-ctx.Done():
	case <-s.req.Parting():
	}
	switch cause, cancelled := mcp.CauseOf(ctx); {
	case !cancelled, cause == mcp.CauseServerShutdown, cause == mcp.CauseTransportClose:
		return &mcp.EmptyResult{ResultMeta: mcp.ResultMeta{
			Meta: mcp.Meta{mcp.MetaSubscriptionID: jsontext.Value(s.req.ID.Raw())},
		}}, nil
	}
	return nil, context.Cause(ctx)
}

// post is that of its feed.
func (s subscription) post(n Notification, done func()) {
	params := []byte{'{'}
	if own := n.params(); len(own) > len("{}") {
		params = append(append(params, own[1:len(own)-1]...), ',')
	}
	// Its error is that of a subscription which has ended: the drop is counted.
	_ = s.req.Post(n.method(), s.appendMeta(params), done)
}

// appendMeta appends the _meta member that every message of a subscription has, and
// closes the params: the id of the request, as its client has written it.
func (s subscription) appendMeta(params []byte) []byte {
	return append(append(append(params, `"_meta":{"`+mcp.MetaSubscriptionID+`":`...), s.req.ID.Raw()...), "}}"...)
}

// A Catalog says what there is to be told of, and to whom.
type Catalog interface {
	// Announces reports whether the server announces to tell of changes of a kind.
	Announces(kind Kind) bool
	// CheckReadable returns the error for a URI that the caller may not read, or nil.
	CheckReadable(ctx context.Context, req *middleware.Request, uri string) error
	// Extensions are the ids of the extensions that are on.
	Extensions() []string
	// Notifies reports whether there can be events of an extension.
	Notifies(extension string) bool
	// Tasks returns those of the tasks of which the caller may be told, with the revisions
	// that it could have read by now.
	Tasks(ctx context.Context, req *middleware.Request, ids []string) (map[string]int64, error)
}

// Subscriptions serves what clients subscribe with: subscriptions/listen in the modern era;
// in the legacy one resources/subscribe and the end of the handshake.
type Subscriptions struct {
	hub     *Hub
	core    *session.Core
	catalog Catalog

	mu    sync.Mutex // guards feeds
	feeds map[*session.Session]*Feed
}

// NewSubscriptions returns the subscriptions to the topics of a hub.
func NewSubscriptions(hub *Hub, catalog Catalog) *Subscriptions {
	return &Subscriptions{hub: hub, core: hub.core, catalog: catalog, feeds: map[*session.Session]*Feed{}}
}

// tooManyResources is the error for a subscriber of more than max_resource_subscriptions.
func (s *Subscriptions) tooManyResources() *mcp.Error {
	s.core.LimitReached(limits.NameResourceSubscriptions)
	return mcp.NewError(mcp.CodeInvalidParams, "too many resources: %s is reached", limits.NameResourceSubscriptions).
		WithData(mcp.ErrorData{Limit: limits.NameResourceSubscriptions})
}
