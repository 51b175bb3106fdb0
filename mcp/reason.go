package mcp

// The vocabularies of this file are public API: their values are metric labels,
// span attributes and log fields. Adding a value is a minor release; renaming or
// removing one is a major release.

// A DropReason says why an answer, or a notification, was not sent.
type DropReason string

const (
	// DropCancelled: suppressed on purpose, because the client wants no answer.
	DropCancelled DropReason = "cancelled"
	// DropClosedWriter: our end was closed first.
	DropClosedWriter DropReason = "closed_writer"
	// DropBrokenPeer: the peer is gone or reset the connection.
	DropBrokenPeer DropReason = "broken_peer"
	// DropWriteTimeout: the peer did not read within the write time-out.
	DropWriteTimeout DropReason = "write_timeout"
	// DropSessionGone: the session was deleted, expired or evicted before the answer existed.
	DropSessionGone DropReason = "session_gone"
	// DropStreamGone (legacy HTTP): the response stream is gone and nothing can replay it.
	DropStreamGone DropReason = "stream_gone"

	// The rest are for notifications only.

	// DropAfterResponse: the request was settled before its notification was sent.
	DropAfterResponse DropReason = "after_response"
	// DropNoProgressToken: progress for a request that did not ask for it.
	DropNoProgressToken DropReason = "no_progress_token"
	// DropQueueFull: the stream's queue was full for longer than the notify time-out.
	DropQueueFull DropReason = "queue_full"
	// DropNotSubscribed: nobody asked for this notification.
	DropNotSubscribed DropReason = "not_subscribed"
	// DropLevelFiltered: a log message below the client's level.
	DropLevelFiltered DropReason = "level_filtered"
	// DropEraForbidden: the protocol revision has no such notification.
	DropEraForbidden DropReason = "era_forbidden"
)

// ResponseDropReasons lists the reasons for which an answer is dropped. The
// caller owns the slice.
func ResponseDropReasons() []DropReason {
	return []DropReason{
		DropCancelled, DropClosedWriter, DropBrokenPeer, DropWriteTimeout, DropSessionGone, DropStreamGone,
	}
}

// NotificationDropReasons lists the reasons for which a notification is
// dropped. The caller owns the slice.
func NotificationDropReasons() []DropReason {
	return append([]DropReason{
		DropAfterResponse, DropNoProgressToken, DropQueueFull, DropNotSubscribed, DropLevelFiltered, DropEraForbidden,
	}, ResponseDropReasons()...)
}

// A RejectReason says why a request was answered with an error instead of being admitted.
type RejectReason string

const (
	RejectDuplicateID    RejectReason = "duplicate_id"
	RejectOverload       RejectReason = "overload"
	RejectShuttingDown   RejectReason = "shutting_down"
	RejectNotInitialized RejectReason = "not_initialized"
	RejectSessionUnknown RejectReason = "session_unknown"
	RejectTooLarge       RejectReason = "too_large"
	RejectParseError     RejectReason = "parse_error"
	// RejectRefused: the server's own rules let the request not in, see [Refusal].
	RejectRefused RejectReason = "refused"
)

// RejectReasons lists every reject reason. The caller owns the slice.
func RejectReasons() []RejectReason {
	return []RejectReason{
		RejectDuplicateID, RejectOverload, RejectShuttingDown, RejectNotInitialized,
		RejectSessionUnknown, RejectTooLarge, RejectParseError, RejectRefused,
	}
}

// CallerFault reports whether a rejection for this reason is the caller's doing.
// overload and shutting_down are the server's.
func (r RejectReason) CallerFault() bool { return r != RejectOverload && r != RejectShuttingDown }

// A RefuseReason says why an HTTP exchange was refused before it carried a message.
type RefuseReason string

const (
	// RefuseHost and RefuseOrigin: the header names what the listener does not serve.
	RefuseHost   RefuseReason = "host"
	RefuseOrigin RefuseReason = "origin"
	// RefuseAuthentication: the authenticator does not let the caller in.
	RefuseAuthentication RefuseReason = "authentication"
	// RefuseMethod: no such HTTP method for this client.
	RefuseMethod RefuseReason = "method"
	// RefuseAccept: the client takes neither of the two forms of an answer.
	RefuseAccept RefuseReason = "accept"
	// RefuseContentType and RefuseContentEncoding: the body is not plain JSON.
	RefuseContentType     RefuseReason = "content_type"
	RefuseContentEncoding RefuseReason = "content_encoding"
	// RefuseVersion: the version header names no revision that is known.
	RefuseVersion RefuseReason = "version"
	// RefuseBody: the body broke off, or its framing is wrong.
	RefuseBody RefuseReason = "body"
	// RefuseBodyTimeout: the body did not arrive within the body time-out.
	RefuseBodyTimeout RefuseReason = "body_timeout"
	// RefuseOverload: too many bytes of bodies are being read.
	RefuseOverload RefuseReason = "overload"
	// RefuseSessionUnknown: a GET or DELETE of a session that is not there.
	RefuseSessionUnknown RefuseReason = "session_unknown"
	// RefuseConflict: a second GET of a session that has its stream.
	RefuseConflict RefuseReason = "conflict"
	// RefuseShuttingDown: a GET, or a large body too many, while the server drains.
	RefuseShuttingDown RefuseReason = "shutting_down"
	// RefuseNoFlush: an event stream where the ResponseWriter cannot flush.
	RefuseNoFlush RefuseReason = "no_flush"
	// RefuseEventUnknown: a GET that cannot go on after the event that it names.
	RefuseEventUnknown RefuseReason = "event_unknown"
	// RefuseEventStore: such a GET while the event store fails.
	RefuseEventStore RefuseReason = "event_store"
)

// RefuseReasons lists every reason for which an HTTP exchange is refused. The
// caller owns the slice.
func RefuseReasons() []RefuseReason {
	return []RefuseReason{
		RefuseHost, RefuseOrigin, RefuseAuthentication, RefuseMethod, RefuseAccept, RefuseContentType, RefuseContentEncoding,
		RefuseVersion, RefuseBody, RefuseBodyTimeout, RefuseOverload, RefuseSessionUnknown, RefuseConflict,
		RefuseShuttingDown, RefuseNoFlush, RefuseEventUnknown, RefuseEventStore,
	}
}

// An IgnoredKind is the kind of an inbound message that was ignored.
type IgnoredKind string

const (
	IgnoredCancel   IgnoredKind = "cancel"
	IgnoredResponse IgnoredKind = "response"
	IgnoredFrame    IgnoredKind = "frame"
)

// An IgnoreReason says why an inbound message had no effect.
type IgnoreReason string

const (
	IgnoreUnknownID      IgnoreReason = "unknown_id"
	IgnoreNotCancellable IgnoreReason = "not_cancellable"
	IgnoreMalformed      IgnoreReason = "malformed"
	IgnoreWrongTransport IgnoreReason = "wrong_transport"
	IgnoreLate           IgnoreReason = "late"
	IgnoreDuplicate      IgnoreReason = "duplicate"
	IgnoreWrongSession   IgnoreReason = "wrong_session"
	IgnoreEraForbidden   IgnoreReason = "era_forbidden"
	IgnoreNotJSONRPC     IgnoreReason = "not_jsonrpc"
	IgnoreTooDeep        IgnoreReason = "too_deep"
	IgnoreInvalidUTF8    IgnoreReason = "invalid_utf8"
	IgnoreBatch          IgnoreReason = "batch"
)

// IgnoreReasons lists the reasons for which a message of the given kind is
// ignored. The caller owns the slice.
func IgnoreReasons(kind IgnoredKind) []IgnoreReason {
	switch kind {
	case IgnoredCancel:
		return []IgnoreReason{IgnoreUnknownID, IgnoreNotCancellable, IgnoreMalformed, IgnoreWrongTransport}
	case IgnoredResponse:
		return []IgnoreReason{
			IgnoreUnknownID, IgnoreLate, IgnoreDuplicate, IgnoreMalformed, IgnoreWrongSession, IgnoreEraForbidden,
		}
	case IgnoredFrame:
		return []IgnoreReason{IgnoreNotJSONRPC, IgnoreTooDeep, IgnoreInvalidUTF8, IgnoreBatch}
	}
	return nil
}

// A StateFault says why the requestState of a request was not accepted. It is the
// reason in the data of the error.
type StateFault string

const (
	// StateMalformed: it has not the form of a state.
	StateMalformed StateFault = "state_malformed"
	// StateTooLarge: it is longer than max_state_bytes.
	StateTooLarge StateFault = "state_too_large"
	// StateForeign: another server has sealed it, or one with a key that was retired.
	StateForeign StateFault = "state_foreign"
	// StateChanged: it is not what was sealed.
	StateChanged StateFault = "state_changed"
	// StateExpired: it is older than state_ttl.
	StateExpired StateFault = "state_expired"
	// StatePrincipal: it was issued to another principal.
	StatePrincipal StateFault = "state_principal"
	// StateTarget: it was issued for another method, tool, prompt or resource.
	StateTarget StateFault = "state_target"
	// StateArguments: it was issued for other arguments.
	StateArguments StateFault = "state_arguments"
)

// StateFaults lists every state fault. The caller owns the slice.
func StateFaults() []StateFault {
	return []StateFault{
		StateMalformed, StateTooLarge, StateForeign, StateChanged, StateExpired, StatePrincipal, StateTarget, StateArguments,
	}
}
