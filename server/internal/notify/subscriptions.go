package notify

import (
	"context"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

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
