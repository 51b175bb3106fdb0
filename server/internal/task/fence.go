package task

import (
	"context"
	"errors"

	"github.com/vitrine-mcp/vitrine/store"
)

// The runs of a task have numbers. Another run begins when its replica has written its number and its own name into the
// record, in one step: so of several replicas one begins it, and the replica of an earlier run finds that it may not
// change the record any more.

// takenOver reports whether the handler of a task has begun again since its run with a number at a replica.
func takenOver(rec *store.TaskRecord, run int, replica string) bool {
	return rec.Runs > run || rec.Runs == run && rec.Replica != replica
}

// errTakenOver says that another replica runs the task, so that this one may not change it.
var errTakenOver = errors.New("server: another replica runs the task")

// fence notes that the end of a run was refused, because another replica runs the task.
func (s *records) fence(ctx context.Context, attrs ...any) {
	s.fenced.Add(1)
	s.logger.WarnContext(ctx, "task.fenced", attrs...)
}
