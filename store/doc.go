// Package store has interfaces for the data that a server keeps beyond one request. An
// [EventStore] stores the event streams of legacy HTTP clients, so that a client that has
// lost its connection can get the rest. A [TaskStore] stores tasks, which go on after
// their call was answered. [Values], [Signals], an [EventLog] and [Buckets] are what the replicas of a server share.
//
// By default a server stores events and tasks in the memory of the process, within its limits, and
// shares nothing. To store them elsewhere, such as in a database, implement an interface of this
// package and pass it to the server: server.WithEventStore, server.WithTasks, server.WithStore.
// package storetest tests implementations.
package store
