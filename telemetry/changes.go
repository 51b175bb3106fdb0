package telemetry

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A changesSource is the [Source] of the metrics of the history of changes.
type changesSource struct{ t *Telemetry }

// Snapshot implements [Source].
func (c changesSource) Snapshot() *Snapshot {
	return &Snapshot{At: time.Now(), changes: c.t.changes.Stats()}
}

// reasonArguments is the reason of requests whose arguments break the tool's schema.
const reasonArguments = "arguments"

// A callingOrigin is an [Origin] that names its caller without describing all of the request.
type callingOrigin interface {
	// Caller returns the client, of which only one form is known, and the principal. Each may be nil.
	Caller() (client *mcp.Implementation, clientInfo jsontext.Value, principal *auth.Principal)
	ArrivedAt() time.Time
}

// A caller is who made a request, and when the request arrived.
type caller struct {
	client     *mcp.Implementation
	clientInfo jsontext.Value
	principal  *auth.Principal
	arrivedAt  time.Time
}

func (op *Operation) caller() (c caller) {
	if origin, ok := op.origin.(callingOrigin); ok {
		c.client, c.clientInfo, c.principal = origin.Caller()
		c.arrivedAt = origin.ArrivedAt()
		return c
	}
	info := op.info()
	return caller{info.Client, info.ClientInfo, info.Principal, info.ArrivedAt}
}

// count counts a request that has ended, also one that was rejected or abandoned.
func (op *Operation) count(out *Outcome, errorType string) {
	t := op.series.tel
	c := op.caller()
	whole := max(time.Since(c.arrivedAt), out.Settled)
	o := changes.Observation{
		Method: op.series.key.method, Target: op.series.key.target, At: op.arrived + int64(whole),
		RequestBytes: out.RequestBytes, AnswerBytes: out.AnswerBytes,
	}
	o.Client, o.Version = t.clients.name(c.client, c.clientInfo)
	if p := c.principal; p != nil {
		o.Issuer, o.Subject, o.Tenant = p.Issuer, p.Subject, p.Tenant
	}
	o.Outcome, o.Reason, o.Phase = out.end(errorType, op)
	if out.Acknowledged == 0 { // the life of a subscription is no duration of an operation
		out.addPhases(&o, whole)
	}
	if o.Phase == "" && o.Running >= slowMiddleware {
		o.Phase = op.slowestMiddleware(o.Running + o.Blocked)
	}
	t.changes.Add(&o)
}

// slowMiddleware is the least own time of a middleware that the history of changes names. Calls that run for
// less do not look at their middlewares.
const slowMiddleware = 100 * time.Millisecond

// slowestMiddleware returns the stage of the middleware in which a request was for at least half of the time
// in which it ran, or "".
func (op *Operation) slowestMiddleware(ran time.Duration) (name string) {
	origin, ok := op.origin.(stagedOrigin)
	if !ok {
		return ""
	}
	most := max(slowMiddleware, ran/2)
	for stage, took := range origin.Stages().Own() {
		if took >= most && strings.HasPrefix(stage, session.StageMiddleware) {
			name, most = stage, took
		}
	}
	return name
}

// AnswerExpired records that no client can fetch a stored answer any more. info has the method, the target and
// the caller of its request, which was an operation of its own.
func (t *Telemetry) AnswerExpired(info Info, reason mcp.ExpireReason) {
	if !t.Enabled() {
		return
	}
	o := changes.Observation{
		Method: info.Method, Target: info.Target, At: time.Now().UnixNano(), Outcome: changes.OutcomeExpired, Reason: string(reason),
	}
	o.Client, o.Version = t.clients.name(info.Client, info.ClientInfo)
	if p := info.Principal; p != nil {
		o.Issuer, o.Subject, o.Tenant = p.Issuer, p.Subject, p.Tenant
	}
	t.changes.Add(&o)
}

// end returns how a request ended: its class or an ordinary outcome, why, and in which phase it was
// if it did not end as it should.
func (o *Outcome) end(errorType string, op *Operation) (outcome, reason, phase string) {
	switch class := o.class(errorType, op); class {
	case "":
		if o.Acknowledged != 0 {
			return changes.OutcomeEnded, string(o.SubscriptionEnd), ""
		}
		return changes.OutcomeAnswered, "", ""
	case classRejected:
		return class, string(o.Rejected), ""
	case classAbandoned, classCancelled:
		return class, string(o.cause()), o.phase()
	case classDropped:
		return class, string(o.Dropped), phaseWriting
	case classError:
		return class, o.errorLabel(errorType), ""
	case classCaller:
		switch {
		case o.argumentsRejected:
			return class, reasonArguments, ""
		case o.Err == nil:
			return class, errorTool, ""
		}
		return class, codeLabel(o.Err.Code), ""
	default:
		return class, "", ""
	}
}

// phase returns the phase in which the outcome was decided.
func (o *Outcome) phase() string {
	switch {
	case o.SettledIn != "":
		return o.SettledIn
	case o.Started == 0:
		return phaseQueued
	}
	return phaseRunning
}

// addPhases adds the time from the arrival to the outcome and the phases of a request. whole is the time
// until now.
func (o *Outcome) addPhases(to *changes.Observation, whole time.Duration) {
	to.Took = o.Settled
	if o.Started == 0 {
		if o.Rejected == "" {
			to.Queued = o.Settled
		}
		return
	}
	done := o.Returned
	if done == 0 {
		done = whole
	}
	to.Queued, to.Blocked = o.Started, o.Blocked
	running := max(done-o.Started-o.Blocked, 0)
	if o.Streams { // such a call runs as long as its client wants
		to.Took = max(to.Took-running, 0)
	} else {
		to.Running = running
	}
	written := o.Fate == FateSent || o.Fate == FateDropped
	if written && o.Returned != 0 && o.Settled >= done {
		to.Writing = whole - o.Settled
	}
}
