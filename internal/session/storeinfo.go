package session

import (
	"context"
	"time"
)

// A StoreInfo is what a server has of the store that it shares with other replicas. The core has no part
// in it: it is in the snapshot for those who read that.
type StoreInfo struct {
	Replica string    // the random name of this process among them
	Away    time.Time // since when the store does not answer; zero if it does
	// Operations counts what became of each operation, by [StoreOperations] and [StoreOutcomes], and Took
	// is how long all of them together took that were made.
	Operations map[string]map[string]uint64
	Took       map[string]time.Duration
	// Signals counts signals by [SignalOutcomes], Missed how often some may have been missed.
	Signals map[string]uint64
	Missed  uint64
	// TasksLost counts the tasks that this replica has ended because theirs was lost.
	TasksLost uint64
	// TasksTakenOver counts those that it has begun again, TasksFenced the ends that it was refused because
	// another replica had begun the task again.
	TasksTakenOver, TasksFenced uint64
	// Fenced counts events that the store has refused, because the end of their stream was another one.
	Fenced uint64
	// Evicts says that the store may delete values before their end.
	Evicts bool
	// Replicas asks all of them what they say of themselves, and returns the answers that came within a
	// moment.
	Replicas func(ctx context.Context) []ReplicaInfo
}

// The operations of the store.
const (
	StorePublish = "publish"
	StoreListen  = "listen"
	StoreGet     = "get"
	StoreClaim   = "claim"
	StoreUpdate  = "update"
	StoreAppend  = "append"
	StoreReplay  = "replay"
	StoreDelete  = "delete"

	// Of tasks, and of the leases of replicas that run them.
	StoreTaskGet    = "task_get"
	StoreTaskCreate = "task_create"
	StoreTaskUpdate = "task_update"
	StoreLease      = "lease"

	// Of the tokens of rate limits.
	StoreTake = "take"
)

// StoreOperations lists them. The caller owns the slice.
func StoreOperations() []string {
	return []string{
		StorePublish, StoreListen, StoreGet, StoreClaim, StoreUpdate, StoreAppend, StoreReplay, StoreDelete,
		StoreTaskGet, StoreTaskCreate, StoreTaskUpdate, StoreLease, StoreTake,
	}
}

// What becomes of an operation.
const (
	StoreOK       = "ok"
	StoreFailed   = "failed"
	StoreTimedOut = "timed_out"
	StoreRefused  = "refused" // the store has answered that it does not make it
	StoreSkipped  = "skipped" // it was not made, because the store is away
)

// StoreOutcomes lists them. The caller owns the slice.
func StoreOutcomes() []string {
	return []string{StoreOK, StoreFailed, StoreTimedOut, StoreRefused, StoreSkipped}
}

// What becomes of a signal to or from other replicas.
const (
	SignalSent     = "sent"
	SignalReceived = "received"
	SignalUnknown  = "unknown" // it came, and what it is about is not here
	SignalLost     = "lost"    // it was not sent, or the replica that it was for does not listen
)

// SignalOutcomes lists them. The caller owns the slice.
func SignalOutcomes() []string {
	return []string{SignalSent, SignalReceived, SignalUnknown, SignalLost}
}
