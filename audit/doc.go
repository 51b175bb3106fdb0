// Package audit keeps a record of what was done: who called, what was decided and by which rule, and
// what came of it. A [Log] takes one [Record] for each operation, refused ones included, and writes it
// to its sinks: package auditfile has files, package auditotlp OpenTelemetry. server.WithAudit gives a
// log to a server; other programs call [Log.Add] themselves.
//
// A log never delays what it records: records wait in bounded queues, and those for which there is no
// place are lost and counted, in [Log.Stats] and in a record of their own. A strict log refuses calls
// instead. Refusals of unknown callers are counted together, so that strangers cannot fill the
// records.
//
// With a key the lines form a chain of keyed hashes, and a [Verifier] finds out whether lines were
// changed, inserted, moved, removed or cut off.
package audit
