package mcp

import (
	"context"
	"errors"
)

// A Cause says why a handler's context was cancelled. The values are public API:
// they are metric labels, span attributes and log fields.
type Cause string

const (
	// CauseClientCancel is a valid notifications/cancelled from the client.
	CauseClientCancel Cause = "client_cancel"
	// CauseClientDisconnect: the request's own response stream went away, and the
	// protocol revision takes that for a cancel.
	CauseClientDisconnect Cause = "client_disconnect"
	// CauseTransportClose: the connection ended in order, and the grace is over.
	CauseTransportClose Cause = "transport_close"
	// CauseTransportError: a read or a write failed, or the client answers no pings.
	CauseTransportError Cause = "transport_error"
	// CauseSessionDelete is an HTTP DELETE of the session.
	CauseSessionDelete Cause = "session_delete"
	// CauseSessionIdle: the session's idle time-out.
	CauseSessionIdle Cause = "session_idle"
	// CauseSessionEvicted: the session was removed to respect the session cap.
	CauseSessionEvicted Cause = "session_evicted"
	// CauseServerShutdown: the drain deadline passed, or the context of Serve ended.
	CauseServerShutdown Cause = "server_shutdown"
	// CauseDeadline: the request's own deadline, or the hard maximum.
	CauseDeadline Cause = "deadline"
	// CauseOperator: an operator has ended the request or its session, on the admin listener.
	CauseOperator Cause = "operator"
	// CauseReplicaLost: this process has not renewed its lease, and another replica has ended its task or begun it
	// again.
	CauseReplicaLost Cause = "replica_lost"
)

// Causes lists every cause in its documented order. The caller owns the slice.
func Causes() []Cause {
	return []Cause{
		CauseClientCancel, CauseClientDisconnect, CauseTransportClose, CauseTransportError,
		CauseSessionDelete, CauseSessionIdle, CauseSessionEvicted, CauseServerShutdown, CauseDeadline,
		CauseOperator, CauseReplicaLost,
	}
}

// Fault reports whether a cancellation with this cause counts as an error of the
// service rather than a decision of the caller.
func (c Cause) Fault() bool {
	switch c {
	case CauseClientCancel, CauseClientDisconnect, CauseSessionDelete, CauseSessionIdle:
		return false
	}
	return true
}

// One sentinel for each cause, to be used as
//
//	errors.Is(context.Cause(ctx), mcp.ErrClientCancelled)
//
// A handler should stop soon and return. After ErrClientCancelled and
// ErrClientDisconnected nobody will read the answer. After ErrServerShutdown and
// ErrTransportClosed an answer that is returned at once may still be sent. After
// ErrDeadline and ErrReplicaLost, and mostly after ErrEndedByOperator, the caller already has its error.
var (
	ErrClientCancelled    error = &CancelError{Cause: CauseClientCancel}
	ErrClientDisconnected error = &CancelError{Cause: CauseClientDisconnect}
	ErrTransportClosed    error = &CancelError{Cause: CauseTransportClose}
	ErrTransportFailed    error = &CancelError{Cause: CauseTransportError}
	ErrSessionDeleted     error = &CancelError{Cause: CauseSessionDelete}
	ErrSessionIdle        error = &CancelError{Cause: CauseSessionIdle}
	ErrSessionEvicted     error = &CancelError{Cause: CauseSessionEvicted}
	ErrServerShutdown     error = &CancelError{Cause: CauseServerShutdown}
	ErrDeadline           error = &CancelError{Cause: CauseDeadline}
	ErrEndedByOperator    error = &CancelError{Cause: CauseOperator}
	ErrReplicaLost        error = &CancelError{Cause: CauseReplicaLost}
)

// A CancelError is the context.Cause of a cancelled handler. It matches the
// sentinel of its cause, and also context.DeadlineExceeded for [CauseDeadline]
// and context.Canceled for all others.
type CancelError struct {
	Cause Cause
	// Detail is more text for logs: for client_cancel the client's own reason, cut
	// and escaped. It is untrusted and never part of Error.
	Detail string
}

// Error returns the cause alone.
func (e *CancelError) Error() string { return "mcp: request cancelled: " + string(e.Cause) }

// Is reports whether target is the sentinel of the same cause or the context
// error that corresponds to it.
func (e *CancelError) Is(target error) bool {
	if t, ok := target.(*CancelError); ok {
		return t.Cause == e.Cause
	}
	if e.Cause == CauseDeadline {
		return target == context.DeadlineExceeded
	}
	return target == context.Canceled
}

// CauseOf returns the cause for which ctx was cancelled, and false if ctx is
// live or was cancelled for another reason.
func CauseOf(ctx context.Context) (Cause, bool) {
	if e, ok := errors.AsType[*CancelError](context.Cause(ctx)); ok {
		return e.Cause, true
	}
	return "", false
}

// Errors that a handler meets when it sends.
var (
	// ErrRequestDone is returned by sends of a request that is already settled.
	ErrRequestDone = errors.New("mcp: the request is already settled")
	// ErrNoBackChannel is returned when the server may not send requests to this
	// client: every modern client, and a legacy one without a stream.
	ErrNoBackChannel = errors.New("mcp: the client cannot be sent requests")
	// ErrNotDeclared is returned for a request that needs a capability which the client
	// has not declared.
	ErrNotDeclared = errors.New("mcp: the client has not declared this capability")
	// ErrClosed is returned by sends after our own end was closed.
	ErrClosed = errors.New("mcp: the connection is closed")
	// ErrPeerGone is returned by sends after the peer has gone.
	ErrPeerGone = errors.New("mcp: the peer is gone")
)
