package server_test

import (
	"context"
	"slices"
	"time"
)

// This file has replicas that shut down. They hand over the tasks that may begin again.

// shutDown shuts a replica down that has no work but tasks, and ends its process.
func (w *modelWorld) shutDown() bool {
	w.rest()
	idle := slices.DeleteFunc(w.alive(), func(r *modelReplica) bool { return r.cut || w.isBusy(r) })
	if len(w.alive()) < 2 || len(idle) == 0 {
		return false
	}
	r := pick(w, idle)
	w.note("%s shuts down", r.name)
	began := time.Now()
	drained, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.srv.Shutdown(drained) // says that stubborn handlers are left behind
	w.endProcess(r)
	r.down = began
	return true
}

// isBusy reports whether a replica has work that is no task.
func (w *modelWorld) isBusy(r *modelReplica) bool {
	return slices.ContainsFunc(w.calls, func(c *modelCall) bool {
		return c.home == r && c.client.answered() == "" || c.conn != nil && c.conn.at == r
	}) || slices.ContainsFunc(w.openModern(), func(m *modernCall) bool { return m.home == r }) ||
		slices.ContainsFunc(w.sessions, func(s *modelSession) bool {
			return s.own != nil && (s.own.home == r || s.own.conn != nil && s.own.conn.at == r)
		})
}

// handedOver reports whether the task of a run need not be looked for: its replica "hands a task over if its handler returns
// the end of its context when the drain is over". The caller must hold the mutex of the task.
func (run *modelRun) handedOver() bool {
	return !run.at.down.IsZero() && run.ended && !run.finished
}
