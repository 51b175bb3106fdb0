package server

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// rootsListChanged tells the hooks what a legacy client says of its roots by itself.
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

// OnRootsChanged adds a hook that is called when a client says that its roots have
// changed (notifications/roots/list_changed; specification of 2025-11-25: "Roots"). It is
// for what a program keeps of roots that it was told: to let go of it, so that the next
// call asks again with [Call.Roots]. Modern clients say nothing of the kind, and are
// asked in each call that wants the roots; neither do legacy clients that have not
// declared roots.
//
// Hooks are called in the order in which they were added, before the next message of the
// same connection is read: they must be quick and must not wait for that client.
func (s *Server) OnRootsChanged(hook func(ctx context.Context, n *Notice)) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.rootsChanged = append(s.hooks.rootsChanged, hook)
}
