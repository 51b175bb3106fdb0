package task

import (
	"context"

	"github.com/vitrine-mcp/vitrine/store"
)

// A Link reaches the other replicas of the server. Its methods are safe for concurrent use.
type Link interface {
	// Replica is the random name of this process.
	Replica() string
	// TaskValues are the values that the replicas share.
	TaskValues() store.Values
	// LeaseValues are those of the leases.
	LeaseValues() store.Values
	// TellTask tells the other replicas that a task has changed. It does not wait.
	TellTask(id string)
	// Run runs work on a goroutine, until its context ends, and reports whether it does.
	Run(work func(context.Context)) bool
}
