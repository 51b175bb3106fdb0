package task

import "context"

// Share has the tasks in what the replicas share, unless the program has a store of its own for them. It
// must be called before the first request.
func (s *Service) Share(link Link) {
	if s.ledger == nil {
		return
	}
	sh := newShared(link, s.core.Limits, s.origin, s.core.LimitReached)
	sh.Watch(s.changed)
	sh.here = func(id string) bool { return s.here(id) != nil }
	sh.lease.needed = func() bool { return s.anyHere() || !sh.unsaved.empty() }
	sh.lease.lapsed = s.readAll // others may have ended our tasks
	sh.lease.renewedAgain = func(ctx context.Context) {
		if !sh.unsaved.empty() { // an end that came when the store was just back
			s.save(ctx, sh)
		}
	}
	s.store, s.ledger = sh, &sh.ledger
	s.shared.Store(sh)
}
