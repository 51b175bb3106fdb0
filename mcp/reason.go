package mcp

// The vocabularies of this file are public API: their values are metric labels,
// span attributes and log fields. Adding a value is a minor release; renaming or
// removing one is a major release.

// A DropReason says why an answer, or a notification, was not sent.
type DropReason string

// Reasons for dropping an answer or a notification.
const (
	DropCancelled    DropReason = "cancelled"     // the client has cancelled the request and wants no answer
	DropClosedWriter DropReason = "closed_writer" // our end was closed first
	DropBrokenPeer   DropReason = "broken_peer"   // the peer is gone or reset the connection
	DropWriteTimeout DropReason = "write_timeout" // the peer did not read within the write time-out
	DropSessionGone  DropReason = "session_gone"  // the session was deleted, expired or evicted before the answer existed
	DropStreamGone   DropReason = "stream_gone"   // legacy HTTP: the response stream is gone and nothing can replay it
	DropOverload     DropReason = "overload"      // the caller lets more wait unread than its share, and others need the memory
	// DropUnconfirmed: the client may have it, and nothing can tell. All of an answer was handed to the operating
	// system, and the peer left before the last bytes that frame it; or a notification was handed to another
	// replica, which did not say what became of it.
	DropUnconfirmed DropReason = "unconfirmed"
)

// Reasons for dropping a notification only.
const (
	// DropAfterResponse: the request was settled before its notification was sent.
	DropAfterResponse DropReason = "after_response"
	// DropNoProgressToken: progress for a request that did not ask for it.
	DropNoProgressToken DropReason = "no_progress_token"
	// DropQueueFull: the stream's queue was full for longer than the notify time-out, or a newer
	// notification has replaced this one.
	DropQueueFull     DropReason = "queue_full"
	DropNotSubscribed DropReason = "not_subscribed" // nobody asked for this notification
	DropLevelFiltered DropReason = "level_filtered" // a log message below the client's level
	DropEraForbidden  DropReason = "era_forbidden"  // the protocol revision has no such notification
)

// ResponseDropReasons lists the reasons for which an answer is dropped. The
// caller owns the slice.
func ResponseDropReasons() []DropReason {
	return []DropReason{
		DropCancelled, DropClosedWriter, DropBrokenPeer, DropWriteTimeout, DropSessionGone, DropStreamGone, DropOverload, DropUnconfirmed,
	}
}

// NotificationDropReasons lists the reasons for which a notification is
// dropped. The caller owns the slice.
func NotificationDropReasons() []DropReason {
	return append([]DropReason{
		DropAfterResponse, DropNoProgressToken, DropQueueFull, DropNotSubscribed, DropLevelFiltered, DropEraForbidden,
	}, ResponseDropReasons()...)
}

// An ExpireReason says why a stored answer cannot be fetched any more.
type ExpireReason string

// Reasons for the loss of a stored answer for this process. The first three are limits of the event store, which
// has deleted the answer, or an event before it that its client needs.
const (
	ExpireMaxEvents          ExpireReason = "max_events"            // the session has later events
	ExpireMaxEventBytes      ExpireReason = "max_event_bytes"       // later events of the session needed the memory
	ExpireMaxEventBytesTotal ExpireReason = "max_event_bytes_total" // events of any session needed the memory
	ExpireSessionIdle        ExpireReason = "session_idle"          // the session has ended by its idle time-out
	ExpireSessionEvicted     ExpireReason = "session_evicted"       // the session has ended because there were max_sessions
	ExpireSessionEnded       ExpireReason = "session_ended"         // the session has ended in another way
	ExpireStreamEnded        ExpireReason = "stream_ended"          // a later event could not be stored
	ExpireStore              ExpireReason = "store"                 // the event store does not have it any more, and did not say why
	// The object that this replica has of the session has ended. The answer is in the store that the
	// replicas share, and another one may replay it.
	ExpireLeftInStore ExpireReason = "left_in_store"
)

// ExpireReasons lists the reasons for which a stored answer is lost. The caller owns the slice.
func ExpireReasons() []ExpireReason {
	return []ExpireReason{
		ExpireMaxEvents, ExpireMaxEventBytes, ExpireMaxEventBytesTotal,
		ExpireSessionIdle, ExpireSessionEvicted, ExpireSessionEnded, ExpireStreamEnded, ExpireStore, ExpireLeftInStore,
	}
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
	RejectRefused        RejectReason = "refused"       // by a rule of the server, see [Refusal]
	RejectEra            RejectReason = "era_forbidden" // the server does not serve the era of the request
)

// RejectReasons lists every reject reason. The caller owns the slice.
func RejectReasons() []RejectReason {
	return []RejectReason{
		RejectDuplicateID, RejectOverload, RejectShuttingDown, RejectNotInitialized,
		RejectSessionUnknown, RejectTooLarge, RejectParseError, RejectRefused, RejectEra,
	}
}

// CallerFault reports whether a rejection for this reason is the caller's doing.
// overload and shutting_down are the server's.
func (r RejectReason) CallerFault() bool { return r != RejectOverload && r != RejectShuttingDown }

// A RefuseReason says why an HTTP exchange was refused before it carried a message.
type RefuseReason string

// Reasons that lie in the head of the exchange.
const (
	RefuseHost            RefuseReason = "host"             // the Host header names what the listener does not serve
	RefuseOrigin          RefuseReason = "origin"           // pages of this origin are not allowed
	RefuseAuthentication  RefuseReason = "authentication"   // the authenticator rejects the caller
	RefuseMethod          RefuseReason = "method"           // no such HTTP method for this client
	RefuseAccept          RefuseReason = "accept"           // the client takes neither of the two forms of an answer
	RefuseContentType     RefuseReason = "content_type"     // the body is not JSON
	RefuseContentEncoding RefuseReason = "content_encoding" // the body is compressed
	RefuseVersion         RefuseReason = "version"          // the version header names no known revision
	RefuseHeader          RefuseReason = "header"           // a header is repeated, or differs from the body
	RefuseTooManyHeaders  RefuseReason = "too_many_headers" // there are more lines than the limit allows
)

// Reasons that lie in the body, the session, or the state of the server.
const (
	// RefuseBody: the body broke off, its framing is wrong, or a modern client hung up before its
	// message had a turn.
	RefuseBody RefuseReason = "body"
	// RefuseBodyTimeout: the body did not arrive within the body time-out.
	RefuseBodyTimeout RefuseReason = "body_timeout"
	// RefuseOverload: too many bytes of bodies are being read, or too many messages wait for their turn.
	RefuseOverload       RefuseReason = "overload"
	RefuseSessionUnknown RefuseReason = "session_unknown" // a GET or DELETE of a session that does not exist
	RefuseConflict       RefuseReason = "conflict"        // a second GET of a session that has its stream
	// RefuseShuttingDown: a GET, or a large body too many, while the server drains.
	RefuseShuttingDown RefuseReason = "shutting_down"
	RefuseNoFlush      RefuseReason = "no_flush"      // an event stream where the ResponseWriter cannot flush
	RefuseEventUnknown RefuseReason = "event_unknown" // a GET that cannot go on after the event that it names
	RefuseEventStore   RefuseReason = "event_store"   // such a GET while the event store fails
)

// RefuseReasons lists every reason for which an HTTP exchange is refused. The
// caller owns the slice.
func RefuseReasons() []RefuseReason {
	return []RefuseReason{
		RefuseHost, RefuseOrigin, RefuseAuthentication, RefuseMethod, RefuseAccept, RefuseContentType, RefuseContentEncoding,
		RefuseVersion, RefuseHeader, RefuseTooManyHeaders, RefuseBody, RefuseBodyTimeout, RefuseOverload, RefuseSessionUnknown,
		RefuseConflict, RefuseShuttingDown, RefuseNoFlush, RefuseEventUnknown, RefuseEventStore,
	}
}

// An IgnoredKind is the kind of an inbound message that was ignored.
type IgnoredKind string

const (
	IgnoredCancel   IgnoredKind = "cancel"
	IgnoredResponse IgnoredKind = "response"
	IgnoredFrame    IgnoredKind = "frame"
	// IgnoredNotification is any other notification.
	IgnoredNotification IgnoredKind = "notification"
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
	IgnoreRateLimited    IgnoreReason = "rate_limited"
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
	case IgnoredNotification:
		return []IgnoreReason{IgnoreRateLimited}
	}
	return nil
}

// A StateFault says why the server did not accept the requestState of a request. It is
// the reason in the data of the error.
type StateFault string

const (
	StateMalformed StateFault = "state_malformed" // it does not have the form of a state
	StateTooLarge  StateFault = "state_too_large" // it is longer than max_state_bytes
	StateForeign   StateFault = "state_foreign"   // it was sealed by another server, or with a key that is no longer known
	StateChanged   StateFault = "state_changed"   // it was changed after it was sealed
	StateExpired   StateFault = "state_expired"   // it is older than state_ttl
	StatePrincipal StateFault = "state_principal" // it was issued to another principal
	StateTarget    StateFault = "state_target"    // it was issued for another method, tool, prompt or resource
	StateArguments StateFault = "state_arguments" // it was issued for other arguments
	StateUsed      StateFault = "state_used"      // it was used before, or another process has issued it that does not share its uses, and states are for single use
	StateUnchecked StateFault = "state_unchecked" // whether it was used before is in a store that is away
)

// StateFaults lists every state fault. The caller owns the slice.
func StateFaults() []StateFault {
	return []StateFault{
		StateMalformed, StateTooLarge, StateForeign, StateChanged, StateExpired, StatePrincipal, StateTarget, StateArguments, StateUsed, StateUnchecked,
	}
}
