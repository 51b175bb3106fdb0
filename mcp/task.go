package mcp

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// The methods of tasks (modern, of the extension).
const (
	MethodTasksGet    = "tasks/get"
	MethodTasksUpdate = "tasks/update"
	MethodTasksCancel = "tasks/cancel"
)

// ExtensionTasks is the id of the tasks extension.
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// A TaskStatus is the state of a task.
type TaskStatus string

const (
	TaskWorking       TaskStatus = "working"
	TaskInputRequired TaskStatus = "input_required"
	TaskCompleted     TaskStatus = "completed"
	TaskFailed        TaskStatus = "failed"
	TaskCancelled     TaskStatus = "cancelled"
)

// TaskStatuses lists every status. The caller owns the slice.
func TaskStatuses() []TaskStatus {
	return []TaskStatus{TaskWorking, TaskInputRequired, TaskCompleted, TaskFailed, TaskCancelled}
}

// Terminal reports whether the status is final.
func (s TaskStatus) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// A Task is work that outlives the request that started it.
type Task struct {
	TaskID        string     `json:"taskId"`
	Status        TaskStatus `json:"status"`
	StatusMessage string     `json:"statusMessage,omitempty"`
	CreatedAt     time.Time  `json:"createdAt"`
	LastUpdatedAt time.Time  `json:"lastUpdatedAt"`
	TTL           *int64     `json:"ttlMs"`                   // milliseconds from creation; null is no end
	PollInterval  int64      `json:"pollIntervalMs,omitzero"` // milliseconds
}

// CreateTaskResult is the result of a request whose work goes on as a task.
type CreateTaskResult struct {
	Task
	ResultMeta
}

// ResultType returns "task".
func (*CreateTaskResult) ResultType() string { return "task" }

// TaskParams is the params member of tasks/get and tasks/cancel.
type TaskParams struct {
	TaskID string `json:"taskId"`
}

// UpdateTaskParams is the params member of tasks/update.
type UpdateTaskParams struct {
	TaskID         string                    `json:"taskId"`
	InputResponses map[string]jsontext.Value `json:"inputResponses"`
}

// GetTaskResult is the result of tasks/get, and the params of notifications/tasks:
// the task with what its status brings.
type GetTaskResult struct {
	Task
	InputRequests map[string]InputRequest `json:"inputRequests,omitempty"` // input_required
	Result        jsontext.Value          `json:"result,omitzero"`         // completed
	Error         *Error                  `json:"error,omitzero"`          // failed
	ResultMeta
}
