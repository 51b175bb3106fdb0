package service

import (
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

const pathActions = "/debug/actions/"

// An order is the body of an action. Each action reads its own fields.
type order struct {
	Key          string      `json:"key"`           // of a request or a session, as /debug/requests has it
	RetrySeconds float64     `json:"retry_seconds"` // when the client of a closed stream should come again
	Level        *slog.Level `json:"level"`
	Profile      string      `json:"profile"` // mutex or block
	Rate         int         `json:"rate"`
	Seconds      float64     `json:"seconds"`
}

// An acted is the answer to an action. Error is "" if it was done.
type acted struct {
	Action    string     `json:"action"`
	Key       string     `json:"key,omitempty"`
	Did       string     `json:"did,omitempty"`
	Error     string     `json:"error,omitempty"`
	Method    string     `json:"method,omitempty"`
	Tool      string     `json:"tool,omitempty"`
	RequestID string     `json:"request_id,omitempty"`
	Session   string     `json:"session,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
}

// actions returns what operators may do. A function returns what it did.
func (p *process) actions() map[string]func(*order, *acted) error {
	return map[string]func(*order, *acted) error{
		telemetry.ActionEndRequest: func(o *order, a *acted) (err error) {
			a.Did = "the caller got an error with the reason operator, and the handler was cancelled"
			return a.on(p.srv.EndRequest(o.Key))
		},
		telemetry.ActionEndSession: func(o *order, a *acted) error {
			a.Did = "the session ends: its handlers were cancelled and may answer within the clean-up grace"
			return a.on(p.srv.EndSession(o.Key))
		},
		telemetry.ActionCloseStream: func(o *order, a *acted) error {
			a.Did = "the stream has ended, and its client may come again for the rest"
			retry, err := o.retry()
			if err != nil {
				return err
			}
			return a.on(p.srv.CloseStream(o.Key, retry))
		},
		telemetry.ActionDrain: func(_ *order, a *acted) error {
			if !p.signals.drain() {
				return server.ErrEnded
			}
			a.Did = "the drain has begun, as with SIGTERM"
			return nil
		},
		telemetry.ActionLogLevel: p.setLogLevel,
		telemetry.ActionProfile:  p.setProfile,
	}
}

// on says what an action was done to.
func (a *acted) on(to server.Acted, err error) error {
	a.Method, a.Tool, a.RequestID, a.Session = to.Method, to.Tool, logline.Printable(to.RequestID, maxHostLogged), to.Session
	return err
}

// checkActions returns an error if actions are on and there is no credential for operators.
func (p *process) checkActions() error {
	switch {
	case !p.cfg.AdminActions:
		return nil
	case p.cfg.adminOff():
		return fmt.Errorf("service: --%s needs the admin listener (--%s)", flagAdminActions, flagAdminAddr)
	case p.access.adminToken == nil && len(p.cfg.AdminSubjects) == 0:
		return fmt.Errorf("service: --%s needs --%s or --%s, also on a loopback address: an action must have a name behind it",
			flagAdminActions, flagAdminToken, flagAdminSubjects)
	}
	return nil
}

// act serves POST /debug/actions/{action}.
func (p *process) act(w http.ResponseWriter, r *http.Request) {
	who := operatorOf(r)
	a := &acted{Action: logline.Printable(r.PathValue("action"), maxHostLogged)}
	do, known := p.actions()[r.PathValue("action")]
	var o order
	status, err := p.readOrder(r, who, known, &o)
	if err == nil {
		a.Key = logline.Printable(o.Key, maxHostLogged)
		if err = do(&o, a); err != nil {
			status = statusOf(err)
		}
	}
	if err != nil {
		a.Did, a.Error = "", err.Error()
	}
	p.recordAction(r, who, a, status, err)
	writeJSON(w, status, a)
}

// refusedAction records an action whose request is refused before any of it is read.
func (p *process) refusedAction(r *http.Request, status int, why error) {
	if action, ok := strings.CutPrefix(r.URL.Path, pathActions); ok && r.Method == http.MethodPost {
		p.recordAction(r, nil, &acted{Action: logline.Printable(action, maxHostLogged), Error: why.Error()}, status, why)
	}
}

// readOrder reads the body of an action. It returns the status of the answer, and why the action is
// refused.
func (p *process) readOrder(r *http.Request, who *operator, known bool, o *order) (status int, err error) {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case !p.cfg.AdminActions:
		return http.StatusNotFound, fmt.Errorf("actions are off: --%s or %s=true turns them on", flagAdminActions, p.env.name(flagAdminActions))
	case who == nil:
		return http.StatusUnauthorized, errors.New("an action needs a token of the file that " + p.tokenSetting() + " names, or a subject of --" + flagAdminSubjects)
	case len(r.Header.Values("Origin")) > 0:
		return http.StatusForbidden, errors.New("an action is refused to web pages: it came with an Origin header")
	case media != "application/json" || len(r.Header.Values("Content-Type")) > 1:
		return http.StatusUnsupportedMediaType, errors.New("want Content-Type: application/json")
	case !known:
		return http.StatusNotFound, errors.New("there is no such action: see GET " + pathActions)
	}
	if err = json.UnmarshalRead(r.Body, o, json.RejectUnknownMembers(true)); err == nil {
		return http.StatusOK, nil
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		p.limitReached(limits.NameFrameBytes)
		return http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes: %s is reached", tooLarge.Limit, limits.NameFrameBytes)
	}
	return http.StatusBadRequest, fmt.Errorf("the body is not what an action wants: %w", err)
}

// An orderError says what is wrong with the body of an action.
type orderError string

func (e orderError) Error() string { return string(e) }

// statusOf returns the status for the error of an action.
func statusOf(err error) int {
	if _, ok := errors.AsType[orderError](err); ok {
		return http.StatusBadRequest
	}
	if errors.Is(err, server.ErrUnknownKey) {
		return http.StatusNotFound
	}
	return http.StatusConflict // it has ended, or cannot be done in its state
}

// recordAction logs, counts and audits an action.
func (p *process) recordAction(r *http.Request, who *operator, a *acted, status int, err error) {
	now := time.Now()
	rec := audit.Record{
		Time: now, Address: r.RemoteAddr, Transport: "http", Operation: "admin/" + a.Action, Target: a.Key, Session: a.Session,
		RequestID: a.RequestID, Decision: audit.DecisionAllow, Stage: audit.StageHandler, Outcome: audit.OutcomeOK,
	}
	level, outcome := slog.LevelInfo, telemetry.ActionDone
	if err != nil {
		level, outcome = slog.LevelWarn, telemetry.ActionRefused
		rec.Outcome, rec.Reason, rec.ErrorCode = audit.OutcomeError, logline.Printable(err.Error(), maxReason), mcp.Code(status)
	}
	name := "-"
	if who != nil {
		rec.Principal, rec.ClientName, name = who.principal, who.user, who.String()
	} else {
		rec.Decision, rec.Stage, rec.Outcome = audit.DecisionRefused, audit.StageToken, audit.OutcomeRefused
	}
	if rec.Principal != nil {
		p.access.audit.Add(rec)
	} else {
		p.access.audit.AddRefusal(rec)
	}
	p.srv.Telemetry().Count(telemetry.MetricAdminActions, a.Action, outcome)
	if ok, silenced := p.refusals.Allow("admin.action", outcome, now); ok || err == nil {
		slog.Log(r.Context(), level, "admin.action", "action", a.Action, "key", a.Key, "operator", name, "remote", r.RemoteAddr,
			"outcome", outcome, "status", status, "error", a.Error, "silenced", silenced)
	}
}

// maxReason is the maximum length of a reason in the audit.
const maxReason = 256

// manySeconds is more than any duration that an action takes, and less than an overflow.
const manySeconds = 1e9

// seconds returns a duration that a body has in seconds. Its caller must check it.
func seconds(s float64) time.Duration {
	return time.Duration(max(min(s, manySeconds), -manySeconds) * float64(time.Second))
}

// maxRetry is the longest time after which the client of a closed stream is asked to come again.
const maxRetry = 24 * time.Hour

// retry returns the time after which the client of a closed stream is asked to come again.
func (o *order) retry() (time.Duration, error) {
	d := seconds(o.RetrySeconds)
	if d < 0 || d > maxRetry {
		return 0, orderError(fmt.Sprintf("retry_seconds is %v: want 0 to %v", o.RetrySeconds, maxRetry.Seconds()))
	}
	return d, nil
}

// An operator is a caller with a valid credential of the admin listener.
type operator struct {
	principal *auth.Principal
	user      string // that was sent with the token; nothing verifies it
}

func (o *operator) String() string {
	if o.user != "" {
		return o.principal.String() + " as " + logline.Printable(o.user, maxHostLogged)
	}
	return o.principal.String()
}

type operatorKey struct{}

// operatorOf returns the operator of a request, or nil: the request came from this machine without a
// credential.
func operatorOf(r *http.Request) *operator {
	o, _ := r.Context().Value(operatorKey{}).(*operator)
	return o
}

// actionIndex says what operators may do.
func (p *process) actionIndex(w http.ResponseWriter, _ *http.Request) {
	if !p.cfg.AdminActions {
		plain(w, http.StatusNotFound, fmt.Sprintf("actions are off: --%s or %s=true turns them on", flagAdminActions, p.env.name(flagAdminActions)))
		return
	}
	plain(w, http.StatusOK, actionTexts)
}

const actionTexts = `POST each with a token, Content-Type: application/json and no Origin header.
Keys are those of /debug/requests.

end_request   {"key": "r17"}                                     the caller gets an error, the handler is cancelled
end_session   {"key": "s4"}                                      in order: handlers may answer within the clean-up grace
close_stream  {"key": "r17", "retry_seconds": 1}                 the response ends, and the client may come again for the rest
              {"key": "s4"}                                      the same for the stream that the session's client reads (GET)
drain         {}                                                 as SIGTERM
log_level     {"level": "debug", "seconds": 300}                 without seconds until it is set again
profile       {"profile": "mutex", "seconds": 30, "rate": 10}    mutex or block; rate may be left out`
