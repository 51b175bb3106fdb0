package task

import (
	"errors"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// A replica that shuts down hands over the tasks of restartable tools whose handlers it has stopped. Another one begins
// them at once ([Service.takeOver]): it need not wait until the replica is lost.

// passable reports whether another replica may begin the handler again.
func (t *task) passable() bool { return t.stored && t.run < t.records.core.Limits().MaxTaskRuns }

// handOver hands a task over whose handler has ended because the server shuts down, and reports whether the task goes on.
// If the store is away, the task begins again when this replica is lost.
func (t *task) handOver() bool {
	if !t.passable() {
		return false
	}
	_, err := t.change(func(rec *store.TaskRecord) error {
		rec.HandedOver = true
		withoutQuestions(rec)
		return nil
	})
	if err == nil {
		t.records.logger.InfoContext(t.ctx(), "task.handed_over", t.work.LogAttrs()...)
	}
	return err == nil || errors.Is(err, errAway)
}

// withoutQuestions makes the questions of a run void that is over.
func withoutQuestions(rec *store.TaskRecord) {
	rec.Status, rec.InputRequests, rec.InputResponses = mcp.TaskWorking, nil, nil
}
