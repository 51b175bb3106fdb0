package store

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A TaskStore keeps the tasks of a server, or of all its replicas (server.Tasks). The
// default one is in memory. It must be safe for concurrent use. Nobody changes a record
// that the store was given or has returned, so that it may keep and return records without
// copies.
//
// Any replica may load and update a record, but the handler of a task runs in the one
// that has created it, and learns from Watch what others have changed. Errors that are
// or wrap an [*mcp.Error] reach the client; any other is logged (task.store) and answered
// as an internal error. A panic counts as such an error.
//
// The limits max_tasks, max_tasks_per_principal and max_task_bytes bound the default store
// alone. Another one needs bounds of its own, and forgets records when they expire.
type TaskStore interface {
	// Create enters a record. When it returns, every Load must find the record: the
	// client is told of the task then.
	Create(ctx context.Context, rec *TaskRecord) error
	// Load returns a record, or [ErrNoTask] if there is none or it has expired.
	Load(ctx context.Context, id string) (*TaskRecord, error)
	// Update changes a record in one atomic step: change gets a copy of the current
	// record ([TaskRecord.Clone]); if it returns nil the copy is stored and returned, else
	// nothing is stored and Update returns that error. Of two concurrent updates the second
	// sees what the first has stored; change may be called again for that. Update returns
	// [ErrNoTask] as Load does.
	Update(ctx context.Context, id string, change func(rec *TaskRecord) error) (*TaskRecord, error)
	// Watch has changed called after each update that the store learns of, at least of
	// those by this process and of those by others to tasks that this process has
	// created. It is called once, before all other methods. changed is quick, and may be
	// called from many goroutines and for the revisions of a record in any order.
	Watch(changed func(rec *TaskRecord))
}

// ErrNoTask says that there is no such task, or not any more.
var ErrNoTask = errors.New("store: no such task")

// A TaskRecord is what a [TaskStore] keeps of one task. It encodes to JSON.
type TaskRecord struct {
	mcp.Task
	// Principal is on whose behalf the task was created (server.WithAuthenticator). Nobody
	// else may learn of it.
	Principal string `json:"principal,omitempty"`
	// Tool is the name of the tool whose handler runs as the task.
	Tool string `json:"tool"`
	// Revision counts the changes of the record.
	Revision int64 `json:"revision"`
	// Expires is when the record is to be forgotten. It may change.
	Expires time.Time `json:"expires"`
	// Trace is the traceparent of the span that has created the task, or "".
	Trace string `json:"trace,omitempty"`
	// InputRequests are the questions that wait for the client, and InputResponses the
	// answers that wait for the handler.
	InputRequests  map[string]mcp.InputRequest `json:"inputRequests,omitempty"`
	InputResponses map[string]jsontext.Value   `json:"inputResponses,omitempty"`
	// Result is that of a task that was completed, and Error that of one that has failed.
	Result jsontext.Value `json:"result,omitzero"`
	Error  *mcp.Error     `json:"error,omitzero"`
}

// Clone returns a copy that may be changed.
func (r *TaskRecord) Clone() *TaskRecord {
	c := *r
	c.InputRequests, c.InputResponses = maps.Clone(r.InputRequests), maps.Clone(r.InputResponses)
	return &c
}
