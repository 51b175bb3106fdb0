package audit

import (
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Record says who did what, what was decided about it, and what came of it. Fields that do not
// apply are zero, and then not written. Texts are cut to a bound and made fit to print when they are
// written.
type Record struct {
	// Time is when the operation arrived; of refusals that were counted together, when the first one
	// did.
	Time time.Time
	// Principal is who was found to call, or nil. It must not be changed. A [Sink] sees of it only what a
	// line has: issuer, subject, tenant, client and actors.
	Principal *auth.Principal
	// ClientName and ClientVersion are what the client says of itself. Nothing verifies them.
	ClientName, ClientVersion string
	// Address is the address of the caller, as host:port or as an address alone; of refusals that were
	// counted together their network.
	Address string
	// Transport is "http", "stdio", "memory", or the name of another transport.
	Transport string
	// Session is the start of the id of the session, or what else logs call it.
	Session string
	// RequestID is the JSON-RPC id of the request, without quotes.
	RequestID string
	// Operation is the method of the protocol, such as "tools/call", or the HTTP method of an exchange
	// without a message, or one of the marks of the log itself ([OperationOpen] and others).
	Operation string
	// Target is the tool, prompt, URI, task or request that the operation is about.
	Target string
	// Task is the short name of the task that the operation has become.
	Task string
	// Arguments is the JSON of the arguments as the caller has sent it. [Log.Add] replaces it by a
	// digest, and by what the redactor gives.
	Arguments []byte
	// Decision is what was decided, Rule by which rule, Reason why.
	Decision     Decision
	Rule, Reason string
	// DryRun says that Decision was not enforced.
	DryRun bool
	// Stage is how far the operation came.
	Stage Stage
	// Outcome is what came of it. ErrorCode is the code of the JSON-RPC error, or the HTTP status of
	// an exchange without a message.
	Outcome   Outcome
	ErrorCode mcp.Code
	// Cause is why the operation was cancelled, Dropped why its answer was not sent.
	Cause   mcp.Cause
	Dropped mcp.DropReason
	// Duration is the time from the arrival to the outcome; of refusals that were counted together,
	// from the first to the last of them.
	Duration time.Duration
	// TraceID is the id of the operation's trace in hexadecimal.
	TraceID string
	// Count is how many refusals, or lost records, this record stands for. 0 stands for one operation.
	Count uint64

	caller   caller // the principal, while the record waits
	digest   [digestSize]byte
	digested bool
	redacted []byte // JSON
	withheld string // why there are no redacted arguments
}

// Operations that are no methods of the protocol: marks that a [Log] writes about itself.
const (
	// OperationOpen begins the records of a process.
	OperationOpen = "audit/open"
	// OperationClose ends them.
	OperationClose = "audit/close"
	// OperationLost stands for records that were lost: Count says how many.
	OperationLost = "audit/lost"
	// OperationRefused stands for refusals of unknown callers, counted by stage, reason and network.
	OperationRefused = "audit/refused"
)

// A Decision is what was decided about an operation.
type Decision string

const (
	// DecisionAllow let the operation pass.
	DecisionAllow Decision = "allow"
	// DecisionDeny is that of a policy.
	DecisionDeny Decision = "deny"
	// DecisionNeedScopes is that of scopes: the caller may come again with more of them.
	DecisionNeedScopes Decision = "need_scopes"
	// DecisionRefused is that of everything else that refuses, which Stage names.
	DecisionRefused Decision = "refused"
)

// DecisionOf returns the decision of a policy.
func DecisionOf(d *auth.Decision) Decision {
	switch {
	case d.Err == nil && d.Effect == auth.Allow:
		return DecisionAllow
	case d.Err == nil && d.Effect == auth.NeedScopes:
		return DecisionNeedScopes
	}
	return DecisionDeny
}

// A Stage is how far an operation came: what refused it, or ended it.
type Stage string

// The stages, in their order.
const (
	StageHTTP       Stage = "http"   // the exchange carried no message
	StageHost       Stage = "host"   // the Host header
	StageOrigin     Stage = "origin" // the Origin header
	StageToken      Stage = "token"  // the authenticator
	StageSession    Stage = "session"
	StageEra        Stage = "era"
	StageAudit      Stage = "audit" // no room for the record
	StageScope      Stage = "scope"
	StagePolicy     Stage = "policy"
	StageAdmission  Stage = "admission" // a rule of the program
	StageRate       Stage = "rate"
	StageOverload   Stage = "overload"
	StageDrain      Stage = "drain"
	StageID         Stage = "id"     // the id was in use
	StageSchema     Stage = "schema" // the arguments
	StageMiddleware Stage = "middleware"
	StageDeadline   Stage = "deadline"
	StageHandler    Stage = "handler"
	StageTask       Stage = "task" // the work that goes on after the answer
)

// An Outcome is what came of an operation.
type Outcome string

const (
	OutcomeOK        Outcome = "ok"
	OutcomeToolError Outcome = "tool_error" // the result of a tool says that it is an error
	OutcomeError     Outcome = "error"
	OutcomeRefused   Outcome = "refused"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeAbandoned Outcome = "abandoned" // the handler ignored that it was cancelled
	OutcomeIgnored   Outcome = "ignored"   // the message concerned nothing
)
