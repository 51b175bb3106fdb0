package session

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"time"
)

// This file is about what the replicas share of a session with a sealed id: each of them may change it, and tells the
// others.

// SharedSessions returns the sessions of this process that other replicas may serve, too. The caller owns the slice.
func (c *Core) SharedSessions() (all []SharedSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.inner {
		all = append(all, SharedSession{id, s.ends})
	}
	return all
}

// shareEnd tells the other replicas that the session was deleted. ctx has the span of that, if there is one.
func (s *Session) shareEnd(ctx context.Context) {
	if s.sealed() { // a connection is open at this process only
		s.core.shareEnd(ctx, deletion{SharedSession{s.id, s.ends}, s.caller.Fingerprint()})
	}
}

// shareEnd tells the other replicas that a session was deleted. If that fails, [Core.ShareAgain] does. The
// deletions that this replica remembers are all that it keeps in the store, so that no flood fills that.
func (c *Core) shareEnd(ctx context.Context, d deletion) {
	if c.elsewhere == nil || !c.SealsSessions() {
		return
	}
	through := c.through(ctx)
	_, err := c.elsewhere.Change(context.Background(), d.session.ID, d.session.Ends, func(st *SharedState) {
		st.Ended, st.Through, st.By, st.Revision = true, through, d.caller, st.Revision+1
	})
	c.deleted.noteTold(d.session.ID, err == nil)
	for _, gone := range c.deleted.takeGone() {
		c.elsewhere.Forget(context.Background(), gone)
	}
}

// maxUnshared bounds the changes of a session that could not be shared. Later ones hold here only.
const maxUnshared = 256

// Share changes what the replicas share of the session, if there are several. If the store is away, the
// change holds here, and the others hear of it later.
func (s *Session) Share(change func(*SharedState)) {
	if s.core.elsewhere == nil || !s.sealed() {
		return
	}
	s.sharing.Lock()
	defer s.sharing.Unlock()
	s.update(func(st *state) {
		if len(st.unshared) < maxUnshared {
			st.unshared = append(st.unshared, change)
		}
	})
	s.shareAll(false)
}

// shareAll shares the changes that wait for it, and also without any what the store has lost. If that fails they go on
// waiting. The caller must hold s.sharing.
func (s *Session) shareAll(lost bool) {
	var changes []func(*SharedState)
	var known SharedState
	s.update(func(st *state) { changes, known = st.unshared, st.sharedState() })
	moves := s.moves.Load()
	if len(changes) == 0 && moves == s.movesTold && !lost || !time.Now().Before(s.ends) { // the store has nothing of what is over
		return
	}
	st, err := s.core.elsewhere.Change(context.Background(), s.id, s.ends, func(st *SharedState) {
		written := st.Revision > 0
		st.restore(known)
		if st.Lineage == "" && written { // by an earlier release
			st.Lineage = known.Lineage
		}
		if st.Lineage == "" {
			st.Lineage = rand.Text()[:8]
		}
		if len(changes) > 0 {
			st.Changed = max(st.Changed, time.Now().UnixMilli())
		}
		for _, change := range changes {
			change(st)
		}
		s.noteOwn(st)
		st.Revision++
	})
	if err != nil {
		return
	}
	s.movesTold = moves
	s.update(func(state *state) {
		if state.shared != nil {
			state.shared.Lineage = st.Lineage // what it had, st has as well
		}
	})
	var overtaking *SharedState
	s.update(func(st *state) {
		st.unshared = slices.Clone(st.unshared[len(changes):]) // those that were made are not kept
		overtaking, st.overtaking = st.overtaking, nil
	})
	if st.Ended { // elsewhere, and no signal has said so: without the store the id would open it again
		s.core.deleted.add(s.id, st.By, time.Now(), s.ends, s.core.limits.MaxDeletedSessions)
	}
	_ = s.apply(st)
	if overtaking != nil {
		_ = s.apply(*overtaking)
	}
}

// restorePause is the least time between two times that a session is put back: a store that goes on to lose it would have
// replicas do nothing else.
const restorePause = time.Second

// RestoreState has the store have again what it has lost of what the replicas share of a session. It waits for the
// store, and before that until the last time is long enough ago.
func (c *Core) RestoreState(ctx context.Context, id string) {
	c.mu.Lock()
	s := c.inner[id]
	c.mu.Unlock()
	if s == nil || !s.restoring.CompareAndSwap(false, true) { // who waits sees all that has come by then
		return
	}
	select {
	case <-time.After(time.Until(time.Unix(0, s.restored.Load()).Add(restorePause))):
	case <-ctx.Done():
	}
	s.restoring.Store(false)
	if ctx.Err() != nil {
		return
	}
	s.sharing.Lock()
	defer s.sharing.Unlock()
	var known SharedState
	s.update(func(st *state) { known = st.sharedState() })
	if st, err := c.elsewhere.State(ctx, id); err == nil && !st.Ended && st.hasLost(known) {
		s.restored.Store(time.Now().UnixNano())
		s.shareAll(true)
	}
}

// ShareAgain shares what could not be shared before, until ctx ends.
func (c *Core) ShareAgain(ctx context.Context) {
	for _, d := range c.deleted.untold() {
		if ctx.Err() == nil {
			c.shareEnd(context.Background(), d)
		}
	}
	c.mu.Lock()
	sessions := slices.Collect(maps.Values(c.inner))
	c.mu.Unlock()
	for _, s := range sessions {
		s.sharing.Lock()
		if ctx.Err() == nil {
			s.shareAll(false)
		}
		s.sharing.Unlock()
	}
}

// StateArrived takes the state of a session that another replica has changed. ends is when its id does. lost reports
// that this replica knows another one: if this is not an old signal, the store has lost that, and
// [Core.RestoreState] puts it back.
func (c *Core) StateArrived(session string, ends time.Time, st SharedState) (lost bool) {
	c.adopting.Lock() // a session that is being opened from its id sees that it has ended
	if st.Ended {
		c.deleted.add(session, st.By, time.Now(), ends, c.limits.MaxDeletedSessions)
	}
	c.mu.Lock()
	s := c.inner[session]
	if n, awaited := c.awaited[session]; awaited {
		n.states++
	}
	c.mu.Unlock()
	c.adopting.Unlock()
	return s != nil && s.apply(st)
}

// apply takes a state of the session, unless it has a later one, or one that the store has lost. lost reports that it has.
// What has ended does not begin again.
func (s *Session) apply(st SharedState) (lost bool) {
	if st.Ended {
		s.endThrough(st.Through)
		return false
	}
	s.applying.Lock() // a later state is not overwritten by an earlier one
	defer s.applying.Unlock()
	newer := false
	s.update(func(state *state) {
		state.refused = nil
		if state.phase == sessionOpen {
			known := state.sharedState()
			lost = st.hasLost(known)
			newer = !lost && st.Revision > known.Revision
		}
		if newer && len(state.unshared) > 0 { // a change of this replica is on its way, maybe to an earlier state
			if state.overtaking == nil || st.Revision > state.overtaking.Revision {
				state.overtaking = &st
			}
			newer = false
		}
		if newer {
			known := st
			known.Streams = st.othersOwn(s.core.elsewhere.Replica())
			state.shared = &known
		}
	})
	if newer {
		s.SetLogLevel(st.LogLevel)
		s.core.stateChanged(s, st)
	}
	s.correctOwn(st)
	s.releaseCalls()
	return lost
}
