// Package store has interfaces for the data that a server keeps beyond one request. An
// [EventStore] stores the event streams of legacy HTTP clients, so that a client that has
// lost its connection can get the rest. A [TaskStore] stores tasks, which go on after
// their call was answered.
//
// By default a server stores both in the memory of the process, within its limits. To store
// them elsewhere, such as in a database, implement an interface of this package and pass it to
// the server: server.WithEventStore, server.WithTasks.
//
// A session belongs to one process, wherever its events are stored: a shared store does not
// let one replica resume the streams of another.
package store
