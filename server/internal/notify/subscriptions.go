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

// A Catalog says what clients can subscribe to.
type Catalog interface {
	// Announces reports whether the server announces notifications of a kind.
	Announces(kind Kind) bool
	// CheckReadable returns the error for a URI that the caller may not read, or nil.
	CheckReadable(ctx context.Context, req *middleware.Request, uri string) error
	// Extensions are the ids of the extensions that are on.
	Extensions() []string
	// Notifies reports whether an extension can have events.
	Notifies(extension string) bool
	// May returns what decides whether the caller of a subscription is told of a change, and
	// SessionMay the same for a legacy session; nil is always. as is what was subscribed to.
	May(req *middleware.Request) func(n Notification, as Topic) bool
	SessionMay(sess *session.Session) func(n Notification, as Topic) bool
	// Tasks returns those of the tasks that belong to the caller, with their revisions.
	Tasks(ctx context.Context, req *middleware.Request, ids []string) (map[string]int64, error)
}

// Subscriptions serves the methods with which clients subscribe: subscriptions/listen in the
// modern era, resources/subscribe in the legacy era. Legacy clients also get changes of lists
// from the end of their handshake on.
type Subscriptions struct {
	hub     *Hub
	core    *session.Core
	catalog Catalog

	mu    sync.Mutex // guards feeds
	feeds map[*session.Session]*Feed
}

// NewSubscriptions returns the Subscriptions of a hub.
func NewSubscriptions(hub *Hub, catalog Catalog) *Subscriptions {
	return &Subscriptions{hub: hub, core: hub.core, catalog: catalog, feeds: map[*session.Session]*Feed{}}
}

// tooManyResources returns the error of a client that subscribes to more than
// max_resource_subscriptions resources.
func (s *Subscriptions) tooManyResources() *mcp.Error {
	s.core.LimitReached(limits.NameResourceSubscriptions)
	return mcp.NewError(mcp.CodeInvalidParams, "too many resources: %s is reached", limits.NameResourceSubscriptions).
		WithData(mcp.ErrorData{Limit: limits.NameResourceSubscriptions})
}

// Listen serves subscriptions/listen (specification: "Subscriptions"). It acknowledges the
// subscription and then waits for its end; the feed posts the notifications.
//
// What comes before and after the wait is in other functions. So a goroutine that waits uses less than a quarter of its
// stack of 8 KB, and the garbage collector gives half of the stack back. The plain version, all in one function, takes 3.8 KB
// more for each listener (BenchmarkOpenStreams of package server).
func (s *Subscriptions) Listen(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	sub := subscription{era.CoreOf(req)}
	feed, err := s.acknowledge(ctx, req, sub)
	if err != nil {
		return nil, err
	}
	until, stop := sub.req.Conn.UntilExpiry(ctx)
	select {
	case <-until.Done():
	case <-sub.req.Ending():
	}
	return s.ended(ctx, until, stop, sub, feed)
}

// acknowledge begins a subscription. Unless it returns an error, the feed must leave the hub.
//
//go:noinline
func (s *Subscriptions) acknowledge(ctx context.Context, req *middleware.Request, sub subscription) (*Feed, error) {
	filter, revisions, err := s.granted(ctx, req)
	if err != nil {
		return nil, err
	}
	ack, err := wire.Marshal([]byte(`{"notifications":`), filter)
	if err != nil {
		return nil, err
	}
	room := s.hub.roomOf(sub.req.HoldCaller())
	feed, ok := s.hub.join(room, sub.post, s.catalog.May(req), topicsOf(filter), revisions) // before the acknowledgement, so that the client misses no later change
	begun := false
	defer func() {
		if !begun {
			s.hub.leave(feed)
		}
	}()
	if !ok {
		return nil, s.noRoom()
	}
	if err := sub.req.Acknowledge(mcp.NotificationSubscriptionsAcknowledged, sub.appendMeta(append(ack, ','))); err != nil {
		return nil, err
	}
	feed.send()
	begun = true
	return feed, nil
}

// granted returns the part of the client's filter that the server announces and the caller may
// see, and the revisions of the tasks.
func (s *Subscriptions) granted(ctx context.Context, req *middleware.Request) (f mcp.SubscriptionFilter, revisions map[string]int64, err error) {
	if f, err = parseFilter(req.Params, s.core.Limits().MaxResourceSubscriptions, s.catalog.Notifies); err != nil {
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

// ended returns how a subscription has ended, and stops what it has begun.
//
//go:noinline
func (s *Subscriptions) ended(ctx, until context.Context, stop context.CancelFunc, sub subscription, feed *Feed) (mcp.Result, error) {
	defer s.hub.leave(feed)
	defer stop()
	if context.Cause(until) == session.ErrTokenExpired && ctx.Err() == nil {
		sub.req.EndWithToken()
	}
	switch cause, cancelled := mcp.CauseOf(ctx); {
	case !cancelled, cause == mcp.CauseServerShutdown, cause == mcp.CauseTransportClose:
		return &mcp.EmptyResult{ResultMeta: mcp.ResultMeta{
			Meta: mcp.Meta{mcp.MetaSubscriptionID: jsontext.Value(sub.req.ID.Raw())},
		}}, nil
	}
	return nil, context.Cause(ctx)
}

// post posts a notification of the feed.
func (s subscription) post(n Notification, done func()) {
	params := []byte{'{'}
	if own := n.params(); len(own) > len("{}") {
		params = append(append(params, own[1:len(own)-1]...), ',')
	}
	// An error says that the subscription has ended. The core has counted the drop.
	_ = s.req.Post(n.method(), s.appendMeta(params), done)
}

// appendMeta appends the _meta member of all messages of a subscription, with the id of the
// request as the client has written it, and closes the params.
func (s subscription) appendMeta(params []byte) []byte {
	return append(append(append(params, `"_meta":{"`+mcp.MetaSubscriptionID+`":`...), s.req.ID.Raw()...), "}}"...)
}
