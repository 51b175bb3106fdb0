package server

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// rootsListChanged returns the handler of notifications/roots/list_changed, which calls the hooks.
func (s *Server) rootsListChanged() func(context.Context, *Notice) {
	tell := s.wrapNotice(mcp.NotificationRootsListChanged, func(ctx context.Context, n *Notice) {
		for _, hook := range s.rootsHooks() {
			hook(ctx, n)
		}
	})
	return func(ctx context.Context, n *Notice) {
		if era.TellsRoots(n.in, n.session) && len(s.rootsHooks()) > 0 {
			tell(ctx, n)
		}
	}
}

func (s *Server) rootsHooks() []func(context.Context, *Notice) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	return s.hooks.rootsChanged
}

// OnRootsChanged adds a hook that is called when a client says that its roots have changed
// (notifications/roots/list_changed; specification of 2025-11-25: "Roots"). A program that
// caches roots removes them from its cache, so that the next call asks again with [Call.Roots].
// Modern clients, and legacy clients that have not declared roots, do not send this
// notification.
//
// Hooks are called in the order in which they were added, before the next message of the same
// connection is read. They must be quick and must not wait for that client.
func (s *Server) OnRootsChanged(hook func(ctx context.Context, n *Notice)) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.rootsChanged = append(s.hooks.rootsChanged, hook)
}
