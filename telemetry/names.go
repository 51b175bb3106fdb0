package telemetry

import "go.opentelemetry.io/otel/attribute"

// The keys of attributes. The packages of OpenTelemetry's conventions have no keys for MCP.
const (
	keyMethod          attribute.Key = "mcp.method.name"            // the method; `_OTHER` for one that the server does not know
	keyProtocolVersion attribute.Key = "mcp.protocol.version"       // the revision that the client speaks
	keyResourceURI     attribute.Key = "mcp.resource.uri"           // the URI that a resources/* request names, cut to 1 KiB
	keySessionID       attribute.Key = "mcp.session.id"             // the name of a legacy HTTP session: the start of its id, or of a digest
	keyRequestID       attribute.Key = "jsonrpc.request.id"         // the id of the request as text; not on notifications
	keyToolName        attribute.Key = "gen_ai.tool.name"           // the registered tool
	keyPromptName      attribute.Key = "gen_ai.prompt.name"         // the registered prompt
	keyOperation       attribute.Key = "gen_ai.operation.name"      // `execute_tool`, on tools/call alone
	keyErrorType       attribute.Key = "error.type"                 // why the request counts as an error of the service: a code, a cause, `tool_error` or `write_timeout`
	keyStatusCode      attribute.Key = "rpc.response.status_code"   // the JSON-RPC error code of the answer
	keyArguments       attribute.Key = "gen_ai.tool.call.arguments" // the arguments of a tool call; only if this is turned on
	keyResult          attribute.Key = "gen_ai.tool.call.result"    // the result of a tool; only if this is turned on
	keyTransport       attribute.Key = "network.transport"          // `tcp`, `quic` or `pipe`
	keyNetworkProtocol attribute.Key = "network.protocol.name"      // `http`, or absent
	keyNetworkVersion  attribute.Key = "network.protocol.version"   // the version of HTTP
	keyClientAddress   attribute.Key = "client.address"             // the address of the client, on requests of the client
	keyClientPort      attribute.Key = "client.port"                // the port of the client, on requests of the client
	keyVia             attribute.Key = "vitrine.http.via"           // the Via headers of a request that came through a trusted proxy
	keyForwardedFor    attribute.Key = "vitrine.http.forwarded_for" // the addresses that it was forwarded for, as the proxies say
	keyServerAddress   attribute.Key = "server.address"             // the address of the client, on requests to the client
	keyServerPort      attribute.Key = "server.port"                // the port of the client when it opened its session, on requests to the client

	keyExceptionType       attribute.Key = "exception.type"       // the Go type of a panic or of an error that the caller does not see
	keyExceptionMessage    attribute.Key = "exception.message"    // its text
	keyExceptionStacktrace attribute.Key = "exception.stacktrace" // the stack of a panic

	keyCancelCause     attribute.Key = "vitrine.cancel.cause"     // why the context of a request, or of a task, was cancelled
	keyCancelDetail    attribute.Key = "vitrine.cancel.detail"    // the client's reason, cut and escaped
	keyCancelUnwind    attribute.Key = "vitrine.cancel.unwind"    // seconds from the cancellation to the return of an abandoned handler
	keySignalKind      attribute.Key = "vitrine.signal.kind"      // what came through another replica: `cancel`, `answer`, `session_end`
	keySignalReplica   attribute.Key = "vitrine.signal.replica"   // the random name of that replica
	keySignalTrace     attribute.Key = "vitrine.signal.trace_id"  // the trace of the message there
	keyOutcome         attribute.Key = "vitrine.response.outcome" // `sent`, `dropped` or `stored`
	keyDropReason      attribute.Key = "vitrine.drop.reason"      // why an answer or a notification was not sent
	keyRejectReason    attribute.Key = "vitrine.reject.reason"    // why the request was not admitted
	keyRefusalReason   attribute.Key = "vitrine.refusal.reason"   // why a rule of the server did not let the request through
	keyRefusalBy       attribute.Key = "vitrine.refusal.by"       // which rule, such as the name of a rate limit
	keyPolicyRule      attribute.Key = "vitrine.policy.rule"      // which rule has decided whether the caller may do this
	keyPolicyEffect    attribute.Key = "vitrine.policy.effect"    // what it has decided: `allow`, `deny`, `need_scopes`; with `dry_run_` before it if that was not enforced
	keyQueueWait       attribute.Key = "vitrine.queue.wait"       // seconds that the request waited for a slot
	keyPhase           attribute.Key = "vitrine.phase"            // with `.handler`, `.decode`, `.encode` or `.middleware.` and a name behind it: seconds in that part of a request whose route has middlewares, without the parts inside
	keyClientName      attribute.Key = "vitrine.client.name"      // what the client calls itself, cut to 64 bytes; untrusted
	keyTaskID          attribute.Key = "vitrine.task.id"          // the first characters of the id of a task
	keyTaskRun         attribute.Key = "vitrine.task.run"         // which run of its handler a task is, if not the first one
	keyTaskStatus      attribute.Key = "vitrine.task.status"      // how a task ended
	keyUser            attribute.Key = "enduser.id"               // the subject of the client's principal, or a pseudonym of it
	keyTenant          attribute.Key = "vitrine.tenant"           // the tenant of the client's principal
	keyClientVersion   attribute.Key = "vitrine.client.version"   // the version that the client names, cut to 64 bytes; untrusted
	keySubscriptionEnd attribute.Key = "vitrine.subscription.end" // why a subscription ended
	keyArgumentFaults  attribute.Key = "vitrine.argument.faults"  // what is wrong with rejected arguments, cut to 256 bytes: paths, types and names of the schema
	keyLogLevel        attribute.Key = "vitrine.log.level"        // the level of a message of Call.Log
	keyLogLogger       attribute.Key = "vitrine.log.logger"       // its logger
	keyLogMessage      attribute.Key = "vitrine.log.message"      // its text, cut to 256 bytes
)

// Names of span events.
const (
	eventAcknowledged = "vitrine.subscription.acknowledged" // event: the subscription was acknowledged

	eventCancelled = "vitrine.cancelled"            // event: the context of a request, or of a task, was cancelled
	eventSignal    = "vitrine.signal.arrived"       // event: a message about the request has come through another replica
	eventDropped   = "vitrine.response.dropped"     // event: the answer will not be sent
	eventAbandoned = "vitrine.handler.abandoned"    // event: the handler ignored its cancelled context for too long
	eventLost      = "vitrine.notification.dropped" // event: a notification about the request will not be sent
	eventException = "exception"                    // event: a panic, or an error that the caller does not see
	eventRejected  = "vitrine.arguments.rejected"   // event: the arguments break the tool's schema; its handler was not called
	eventLog       = "vitrine.log"                  // event: a message of Call.Log
)

// operationExecuteTool is gen_ai.operation.name of tools/call.
const operationExecuteTool = "execute_tool"

// Bounds of a peer's texts on spans, in bytes.
const (
	maxName = 64
	maxURI  = 1024
	maxText = 256
)

// other is the value of a label for all values outside of its closed set.
const other = "_OTHER"

// scopeName is the instrumentation scope of Vitrine.
const scopeName = "github.com/vitrine-mcp/vitrine"

// spanReturnedLate is the name of the span for the return of an abandoned handler. The span of
// its request ended before.
const spanReturnedLate = "vitrine.handler.returned" // span: the return of an abandoned handler, linked to its request

// spanSignal is the name of the span for a message that has arrived at another replica. It is a child of the
// span that the message has there.
const spanSignal = "vitrine.signal" // span: what a message that has arrived at another replica does here, linked to its request

// spanTask is the start of the name of a task's span. The registered tool follows.
const spanTask = "vitrine.task" // span, followed by the tool: the handler after its call became a task
