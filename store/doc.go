// Package store has the interfaces of what a server keeps beyond one request. An
// [EventStore] keeps the event streams of legacy HTTP clients, so that a client that has
// lost its connection can have the rest. A [TaskStore] keeps tasks, which go on after
// their call was answered.
//
// Servers have defaults in the memory of the process, within their limits, and need
// nothing of this package. Implement an interface of it to keep things elsewhere, such as
// in a database, and pass it to the server: server.WithEventStore, server.WithTasks.
//
// A session lives in one process, whatever keeps its events: a store that replicas share
// does not let one of them resume the streams of another.
package store
