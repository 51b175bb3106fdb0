package server_test

import "slices"

// A modelSetting is what the oracle knows of something that a client sets for its session at any replica, such as the
// log level, and that holds at all of them.
type modelSetting[T comparable] struct {
	now T
	// late is what a replica was told that did not have the store. It tells the others when it has the store again
	// (docs/replicas.md: "hold at all replicas, unless the process has ended meanwhile"), and the page does not
	// say whether that replaces what was set elsewhere meanwhile.
	late []lateSetting[T]
	// told is all that was set, and that with which the session begins.
	told []T
	last *modelReplica // where it was set last
	// lost says that the store has lost it. Then it is unknown what holds at a replica that sees the session for the first
	// time, until the client sets it again, at any replica.
	lost bool
}

// lose notes that the store has lost it.
func (m *modelSetting[T]) lose() { m.lost = true }

type lateSetting[T comparable] struct {
	value T
	at    *modelReplica
}

// newSetting returns a setting with that of a session that has set nothing.
func newSetting[T comparable](v T) *modelSetting[T] {
	return &modelSetting[T]{now: v, told: []T{v}}
}

// set notes that a client has set it at a replica. Nothing else may be under way.
func (m *modelSetting[T]) set(r *modelReplica, v T) {
	m.last, m.told = r, append(m.told, v)
	if !r.well() {
		m.late = append(m.late, lateSetting[T]{v, r})
		return
	}
	m.now = v // it follows all that the store has
	// "A subscription that a client has ended since then may begin again."
	m.lost = m.lost && v == m.told[0]
	m.late = slices.DeleteFunc(m.late, func(late lateSetting[T]) bool { return late.at.killed })
}

// at returns what may hold at a replica when nothing is under way.
func (m *modelSetting[T]) at(r *modelReplica) []T {
	all, others := []T{m.now}, false
	for _, late := range m.late {
		all, others = append(all, late.value), others || late.at != r
	}
	switch {
	case m.lost:
		return m.told
	case r.well():
		return all
	case m.last == r && !others:
		return m.told[len(m.told)-1:]
	}
	// "log level and subscriptions hold there" while the store is away: the replica may not have heard of the last ones.
	return m.told
}

// sees notes what holds at a replica that is well.
func (m *modelSetting[T]) sees(w *modelWorld, v T) {
	// The store may have what a replica was told that was killed before it could tell the others. Then those have it
	// which ask the store later ("unless the process has ended meanwhile").
	lost := slices.ContainsFunc(m.late, func(late lateSetting[T]) bool { return late.at.killed })
	if !lost && !m.lost && w.allWell() { // all have told what they could not tell
		m.now, m.late = v, nil
	}
}
