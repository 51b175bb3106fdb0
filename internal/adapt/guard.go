package adapt

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// byAuthenticator says who refuses a caller if the authenticator does not say so itself.
const byAuthenticator = "authenticator"

// A guard finds out who calls, decides what callers may do, and records it. Its settings must not
// change once the server serves.
type guard struct {
	authenticator auth.Authenticator // nil: all callers are served
	policies      []auth.Policy
	authorize     middleware.Middleware // nil: there are no policies
	log           *audit.Log
	sessions      sessionSeal
	lines         logline.Limiter

	mu     sync.Mutex // guards the rest
	shown  bool       // telemetry has the counts
	counts state.Counters
}

// Authenticate sets the authenticator. Callers that it refuses are not served.
func (a *Adapter) Authenticate(by auth.Authenticator) {
	a.guard.authenticator = by
	if a.guard.sessions.key == nil {
		a.guard.sessions = newSessionSeal()
	}
	a.combine()
}

// Authorize adds policies.
func (a *Adapter) Authorize(policies ...auth.Policy) {
	a.guard.policies = append(a.guard.policies, policies...)
	a.combine()
}

// Audit sets the log that takes the records.
func (a *Adapter) Audit(log *audit.Log) {
	a.guard.log = log
	a.combine()
}

// combine makes one middleware of all policies, and adds the guard to telemetry.
func (a *Adapter) combine() {
	g := &a.guard
	if len(g.policies) > 0 {
		challenger, _ := g.authenticator.(auth.Challenger)
		g.authorize = middleware.Authorize(challenger, newDecider(g.policies))
	}
	if !g.shown {
		g.shown = true
		g.counts = state.Counters{
			HTTPRefused: map[mcp.RefuseReason]uint64{}, Refused: map[string]map[string]uint64{},
			Decisions: map[string]map[string]uint64{}, Foreign: map[string]uint64{}, StreamsExpired: map[string]uint64{},
		}
		a.Telemetry.AddSource(g)
	}
}

// Authenticates reports whether there is an authenticator.
func (a *Adapter) Authenticates() bool { return a.guard.authenticator != nil }

// Authorizes reports whether there are policies.
func (a *Adapter) Authorizes() bool { return a.guard.authorize != nil }

// AuthenticateStream returns the principal of the caller on a byte stream, or an error if the
// authenticator refuses it.
func (a *Adapter) AuthenticateStream(ctx context.Context, transport string) (*auth.Principal, error) {
	p, refused := a.guard.authenticate(ctx, &auth.Caller{Transport: transport})
	if refused != nil {
		return nil, refused
	}
	return p, nil
}

// authenticate returns the principal of a caller. A panic of the authenticator refuses the caller.
func (g *guard) authenticate(ctx context.Context, caller *auth.Caller) (p *auth.Principal, refused *mcp.Refusal) {
	if g.authenticator == nil {
		return nil, nil
	}
	defer func() {
		if v := recover(); v != nil {
			slog.ErrorContext(ctx, "authenticator.panic", "panic", v, "stack", string(debug.Stack()))
			p, refused = nil, &mcp.Refusal{
				Status: http.StatusServiceUnavailable, Reason: "panic", By: byAuthenticator, Message: "it cannot be told who calls",
			}
		}
		if refused != nil {
			g.refusedCaller(caller, refused)
		}
	}()
	p, err := g.authenticator.Authenticate(ctx, caller)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return nil, session.RefusalOf(err, mcp.Refusal{Status: http.StatusUnauthorized, Reason: "unauthenticated", By: byAuthenticator})
	}
	return p, nil
}

// refusedCaller counts, logs and records that a caller was refused.
func (g *guard) refusedCaller(caller *auth.Caller, refused *mcp.Refusal) {
	reason := logline.Printable(refused.Reason, maxReason)
	g.mu.Lock()
	increment(g.counts.Refused, reason, byOf(refused))
	if caller.Transport == "http" {
		g.counts.HTTPRefused[mcp.RefuseAuthentication]++
	}
	g.mu.Unlock()
	if ok, silenced := g.lines.Allow("caller.refused", reason, time.Now()); ok {
		slog.Info("caller.refused", "transport", caller.Transport, "remote", caller.RemoteAddr, "refusal", reason,
			"by", byOf(refused), "error", refused.Err, "silenced", silenced)
	}
	g.log.AddRefusal(audit.Record{
		Time: time.Now(), Transport: caller.Transport, Address: caller.RemoteAddr,
		Decision: audit.DecisionRefused, Stage: audit.StageToken, Outcome: audit.OutcomeRefused,
		Reason: reason, Rule: byOf(refused), ErrorCode: refused.Code(),
	})
}

// byOf returns the name of what refused a caller, fit for a label and a log: a program may make up any.
func byOf(refused *mcp.Refusal) string { return logline.Printable(refused.By, maxReason) }

// RefuseStranger counts, logs and records a request that came around the authenticator.
func (a *Adapter) RefuseStranger(peer middleware.Peer) {
	a.guard.refusedCaller(&auth.Caller{Transport: peer.Transport, RemoteAddr: peer.Addr},
		&mcp.Refusal{Status: http.StatusUnauthorized, Reason: "unauthenticated", By: byAuthenticator})
}

// refusedAmbiguous counts and records a message that decoders may read differently.
func (g *guard) refusedAmbiguous(peer middleware.Peer, p *auth.Principal) {
	g.mu.Lock()
	increment(g.counts.Refused, reasonAmbiguous, byPolicy)
	g.mu.Unlock()
	rec := audit.Record{
		Time: time.Now(), Principal: p, Transport: peer.Transport, Address: peer.Addr,
		Decision: audit.DecisionRefused, Stage: audit.StageSchema, Outcome: audit.OutcomeRefused, Reason: reasonAmbiguous,
		ErrorCode: mcp.CodeInvalidRequest,
	}
	if p == nil {
		g.log.AddRefusal(rec)
	} else {
		g.log.Add(rec)
	}
}

// A message that is ambiguous is refused because policies cannot decide about it.
const (
	reasonAmbiguous = "ambiguous"
	byPolicy        = "policy"
)

// foreignSession counts, logs and records that a caller has used a session of another principal.
func (g *guard) foreignSession(p *auth.Principal, req *http.Request) {
	g.mu.Lock()
	g.counts.Foreign[session.ForeignSession]++
	g.counts.HTTPRefused[mcp.RefuseSessionUnknown]++
	g.mu.Unlock()
	if ok, silenced := g.lines.Allow("principal.foreign", session.ForeignSession, time.Now()); ok {
		slog.Warn("principal.foreign", "kind", session.ForeignSession, "principal", logline.Printable(p.String(), maxReason),
			"remote", req.RemoteAddr, "silenced", silenced)
	}
	rec := audit.Record{
		Time: time.Now(), Principal: p, Transport: "http", Address: req.RemoteAddr, Operation: req.Method,
		Decision: audit.DecisionRefused, Stage: audit.StageSession, Outcome: audit.OutcomeRefused,
		Reason: string(mcp.RefuseSessionUnknown), ErrorCode: http.StatusNotFound,
	}
	if p == nil {
		g.log.AddRefusal(rec)
		return
	}
	g.log.Add(rec)
}

// streamExpired counts and logs that a stream has ended with its token.
func (g *guard) streamExpired(stream string, p *auth.Principal) {
	g.mu.Lock()
	g.counts.StreamsExpired[stream]++
	g.mu.Unlock()
	slog.Info("stream.expired", "stream", stream, "reason", mcp.EndTokenExpired,
		"principal", logline.Printable(p.String(), maxReason), "expired", p.Expires.UTC().Format(time.RFC3339))
}

// countDecision counts what was decided about a request.
func (g *guard) countDecision(d *auth.Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	increment(g.counts.Decisions, logline.Printable(d.Rule, maxReason), session.EffectOf(d))
}

// maxPairs bounds how many pairs of labels are told apart, because a program may make up a label for each
// request.
const maxPairs = 64

// increment counts the pair of a and b. If there are too many pairs, it counts "_OTHER" and b.
func increment(counts map[string]map[string]uint64, a, b string) {
	pairs := 0
	for _, of := range counts {
		pairs += len(of)
	}
	if counts[a][b] == 0 && pairs >= maxPairs {
		a = "_OTHER"
	}
	if counts[a] == nil {
		counts[a] = map[string]uint64{}
	}
	counts[a][b]++
}

// Snapshot implements [telemetry.Source].
func (g *guard) Snapshot() *telemetry.Snapshot {
	snap := &telemetry.Snapshot{At: time.Now(), Audit: g.log.Stats()}
	if r, ok := g.authenticator.(auth.Reporter); ok {
		snap.Auth = r.Stats()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	snap.Counters = state.Counters{
		HTTPRefused: maps.Clone(g.counts.HTTPRefused), Refused: cloned(g.counts.Refused), Decisions: cloned(g.counts.Decisions),
		Foreign: maps.Clone(g.counts.Foreign), StreamsExpired: maps.Clone(g.counts.StreamsExpired),
	}
	return snap
}

func cloned(counts map[string]map[string]uint64) map[string]map[string]uint64 {
	all := make(map[string]map[string]uint64, len(counts))
	for name, by := range counts {
		all[name] = maps.Clone(by)
	}
	return all
}
