package task

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// recordOverhead is what a record costs beside its variable parts, in bytes.
const recordOverhead = 512

// recordSize estimates the memory that a record takes, in bytes.
func recordSize(r *store.TaskRecord) int {
	n := recordOverhead + len(r.TaskID) + len(r.StatusMessage) + len(r.Principal) + len(r.Tool) + len(r.Trace) + len(r.Result)
	for key, q := range r.InputRequests {
		params, _ := q.Params.(jsontext.Value)
		n += len(key) + len(q.Method) + len(params)
	}
	for key, raw := range r.InputResponses {
		n += len(key) + len(raw)
	}
	if r.Error != nil {
		data, _ := r.Error.Data.(jsontext.Value)
		n += len(r.Error.Message) + len(data)
	}
	return n
}

// resultOf is what tasks/get says of the task.
func resultOf(r *store.TaskRecord) *mcp.GetTaskResult {
	return &mcp.GetTaskResult{Task: r.Task, InputRequests: r.InputRequests, Result: r.Result, Error: r.Error}
}

// askClient opens a question of the record.
func askClient(r *store.TaskRecord, key string, q mcp.InputRequest) {
	if r.InputRequests == nil {
		r.InputRequests = map[string]mcp.InputRequest{}
	}
	r.InputRequests[key] = q
	delete(r.InputResponses, key)
	r.Status = mcp.TaskInputRequired
}

// clientAnswered closes a question of the record.
func clientAnswered(r *store.TaskRecord, key string, answer jsontext.Value) {
	if r.InputResponses == nil {
		r.InputResponses = map[string]jsontext.Value{}
	}
	r.InputResponses[key] = answer
	delete(r.InputRequests, key)
	if len(r.InputRequests) == 0 {
		r.Status = mcp.TaskWorking
	}
}

// taskTime is now, as records tell it.
func taskTime() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// maxTaskText bounds the message of a task, in bytes.
const maxTaskText = 1024

func taskText(message string) string { return logline.Printable(message, maxTaskText) }

// taskName names a task in logs and traces. The whole id is a credential of a kind.
func taskName(id string) string { return fmt.Sprintf("%.8s", id) }
