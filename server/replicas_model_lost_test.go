package server_test

import (
	"slices"
	"time"
)

// This file has a store that loses all values and events at once, and goes on: somebody has emptied it, or another
// server without its values has taken over. Sessions, handlers and open streams go on.

// loseValues empties the store.
func (w *modelWorld) loseValues() bool {
	if w.losses.Load() > 0 {
		time.Sleep(time.Second) // a replica puts a session back once a second
	}
	w.rest()
	w.note("the store loses all that it has")
	w.losses.Add(1)
	w.emptied = time.Now()
	for _, c := range w.calls { // "the stream goes on and cannot be resumed"
		c.sound = c.sound && c.client.answered() != ""
	}
	for _, s := range w.sessions {
		if o := s.own; o != nil {
			o.sound = false
			// docs/replicas.md does not say that a subscription outlives this: the next change of the session is to an empty state.
			o.due = slices.DeleteFunc(o.due, func(d modelDue) bool { return d.uri != "" && d.later })
		}
		// Replicas that have heard of its end remember that. "A server that deletes values before their end would let an
		// ended session live again, and a state be used twice."
		s.told, s.forgotten = false, len(s.deletions) > 0
		s.level.lose()
		for _, subscribed := range s.listener.subscribed {
			subscribed.lose()
		}
	}
	for _, s := range w.states {
		s.perhaps, s.used = s.perhaps || s.used, false
	}
	return true
}
