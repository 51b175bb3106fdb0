package server

import (
	"maps"
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// tellExtensions tells a legacy session what happens in the extensions that it has
// declared, from the end of its handshake on: it has no subscriptions/listen.
func (s *Server) tellExtensions(sess *session.Session) {
	ids := slices.DeleteFunc(s.extensions.ids(), func(id string) bool {
		_, declared := era.SessionExtension(sess, id)
		return !declared
	})
	if len(ids) == 0 || !s.happenings.enlist(sess) {
		return
	}
	w := newWitness(s.core, func(what happening, done func()) { sess.PostEach(what.method, what.params, done) })
	leave := s.happenings.join(w, ids)
	sess.OnClosed(func() {
		leave()
		s.happenings.forget(sess)
	})
	w.send()
}

// ownHonoured checks that a modern client has declared the extensions of which it wants
// to know.
func ownHonoured(req *middleware.Request, f mcp.SubscriptionFilter) error {
	for _, id := range slices.Sorted(maps.Keys(f.Extensions)) {
		if err := era.RequireExtension(req, id); err != nil {
			return err
		}
	}
	return nil
}
