package store

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A TaskStore stores the tasks of a server, or of all its replicas (server.Tasks). The
// default one is in memory, or, with server.WithStore, in the values that the replicas share. It must be safe for concurrent use. The server does not change a
// record that it has passed to the store or got from it, so that the store may keep and return
// records without copies.
//
// Any replica may load and update a record, but the handler of a task runs in the replica
// that has created it, or has taken it over, which learns of changes by others from Watch. An error that is or wraps
// an [*mcp.Error] reaches the client. Any other error is logged (task.store) and answered as
// an internal error. A panic counts as such an error.
//
// The limits max_tasks, max_tasks_per_principal and max_task_bytes apply to the default stores
// only, in what replicas share to the tasks that each of them has created. Another one needs bounds of its own, and must delete records when they expire.
type TaskStore interface {
	// Create stores a new record. Once it has returned, every Load must find the record,
	// because the client then gets the id of the task.
	Create(ctx context.Context, rec *TaskRecord) error
	// Load returns a record, or [ErrNoTask] if there is none or it has expired.
	Load(ctx context.Context, id string) (*TaskRecord, error)
	// Update changes a record in one atomic step. change gets a copy of the current record
	// ([TaskRecord.Clone]). If it returns nil, the copy is stored and returned; otherwise
	// nothing is stored and Update returns its error. Of two concurrent updates the second
	// gets the record that the first has stored; change may be called again for that. Update
	// returns [ErrNoTask] as Load does.
	Update(ctx context.Context, id string, change func(rec *TaskRecord) error) (*TaskRecord, error)
	// Watch sets a function that the store calls after each update: at least for updates by
	// this process, and for updates by others to tasks that this process has created. Watch
	// is called once, before all other methods. changed returns quickly, is safe for
	// concurrent use, and accepts the revisions of a record in any order.
	Watch(changed func(rec *TaskRecord))
}

// ErrNoTask says that there is no such task, or that it has expired.
var ErrNoTask = errors.New("store: no such task")

// A TaskRecord is the record of one task in a [TaskStore]. It encodes to JSON.
type TaskRecord struct {
	mcp.Task
	// Principal is the key of the principal that has created the task
	// (server.WithAuthenticator). Other principals must not learn of the task.
	Principal string `json:"principal,omitempty"`
	// Tool is the name of the tool whose handler runs as the task.
	Tool string `json:"tool"`
	// Revision counts the changes of the record.
	Revision int64 `json:"revision"`
	// Expires is the time at which the record expires. It may change.
	Expires time.Time `json:"expires"`
	// Replica is the random name of the process that runs the handler, if the record is in what
	// replicas share (server.WithStore); otherwise "".
	Replica string `json:"replica,omitempty"`
	// Runs counts how often the handler has begun. It is more than 1 if replicas that ran it were lost.
	Runs int `json:"runs,omitempty"`
	// HandedOver says that Replica has shut down before the handler had ended, so that another one may begin it again
	// at once.
	HandedOver bool `json:"handedOver,omitempty"`
	// Call is what another replica needs to begin the handler again, for a tool that is Restartable, until the
	// task ends; otherwise nil. It has the arguments and the principal of the call, and no credentials.
	Call jsontext.Value `json:"call,omitzero"`
	// Client and ClientVersion are what the client that has created the task says of itself, cut and fit to
	// print, or "".
	Client        string `json:"client,omitempty"`
	ClientVersion string `json:"clientVersion,omitempty"`
	// Trace is the traceparent of the span in which the task was created, or "".
	Trace string `json:"trace,omitempty"`
	// InputRequests are the questions that wait for the client, and InputResponses the
	// answers that wait for the handler.
	InputRequests  map[string]mcp.InputRequest `json:"inputRequests,omitempty"`
	InputResponses map[string]jsontext.Value   `json:"inputResponses,omitempty"`
	// Result is the result of a completed task, and Error the error of a failed one.
	Result jsontext.Value `json:"result,omitzero"`
	Error  *mcp.Error     `json:"error,omitzero"`
}

// Clone returns a copy that may be changed.
func (r *TaskRecord) Clone() *TaskRecord {
	c := *r
	c.InputRequests, c.InputResponses = maps.Clone(r.InputRequests), maps.Clone(r.InputResponses)
	return &c
}
