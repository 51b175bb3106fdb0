package server

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/store"
)

// eventStore is the choice of an event store.
type eventStore struct {
	chosen bool
	store  store.EventStore
}

// open returns the store, by default a new one in memory, or nil.
func (e eventStore) open() store.EventStore {
	if !e.chosen {
		return session.NewMemoryEvents()
	}
	return e.store
}

// WithEventStore sets where the events of legacy HTTP streams are kept. The default is
// a store in the memory of the process, within the server's limits. A store that
// fails never fails a request: its stream goes on without being resumable.
func WithEventStore(events store.EventStore) Option {
	return optionFunc(func(c *config) { c.events = eventStore{true, events} })
}

// WithoutEventStore keeps no events: a legacy HTTP stream ends with its connection, and
// [Call.CloseStream] is not supported.
func WithoutEventStore() Option { return WithEventStore(nil) }

// CloseStream ends the HTTP response to this call, so that a long call does not hold a
// connection. What the call sends from then on, its result included, waits for the
// client to come and get it (specification 2025-11-25: "Sending Messages to the
// Server", SEP-1699). retry is how long the client should wait before it comes; 0
// leaves that to the client. A call may close each connection over which the client
// comes.
//
// CloseStream returns when the response has ended, and at once if it has ended before.
// Only legacy HTTP clients from revision 2025-11-25 on know how to come back: for all
// others, without an event store, and if that fails, nothing happens and the error
// matches [errors.ErrUnsupported]. A call that can go on without need not look at it.
// Once the call is settled the error is [mcp.ErrRequestDone], or the cause of its
// cancellation if it was waiting at that moment.
func (c *Call) CloseStream(retry time.Duration) error { return c.core.CloseStream(retry) }
