package adapttest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Site is a protected server over HTTP. Its server has the tools add, fail and who, the prompt greet and
// the resources note://1 and note://2, of which [Policy] hides and protects some.
type Site struct {
	*Rig
	URL     string // of the endpoint, with its path
	Version mcp.Version
	Records *Records
	// Token makes a token with claims.
	Token  func(claims map[string]any) string
	Client *http.Client
}

// Policy hides the tool fail, the prompt greet and the resource note://1, and demands the scope
// demo:write for the tool add.
func Policy(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
	switch {
	case op.Name == "fail", op.Name == "greet", op.URI == "note://1":
		return auth.Decision{Effect: auth.Deny, Rule: "hidden", Reason: "not for you"}
	case op.Name == "add" && !p.HasScope("demo:write"):
		return auth.Decision{Effect: auth.NeedScopes, Scopes: []string{"demo:write"}, Rule: "write"}
	}
	return auth.Decision{Effect: auth.Allow, Rule: "rest"}
}

// Eras runs a test in both eras.
func Eras(t *testing.T, test func(t *testing.T, version string)) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) { test(t, version) })
	}
}

// NewResource returns the resource server of a site, for the tokens of an issuer.
func NewResource(issuer string) (*oauth.ResourceServer, error) {
	return oauth.New(oauth.Config{
		Issuers: []string{issuer}, Resource: "https://mcp.example.com/mcp", Endpoint: "/mcp",
		Scopes: []string{"demo:read", "demo:write"}, InitialScopes: []string{"demo:read"},
	})
}

// Protect gives an adapter a resource server, [Policy] and an audit.
func (r *Rig) Protect(adapter Adapter, resource *oauth.ResourceServer) *Records {
	r.t.Helper()
	r.t.Cleanup(func() { require.NoError(r.t, resource.Close()) })
	log, records := r.NewAudit()
	adapter.Authenticate(resource)
	adapter.Authorize(auth.PolicyFunc(Policy))
	adapter.Audit(log)
	return records
}

// An Adapter is that of one of the SDKs.
type Adapter interface {
	Authenticate(auth.Authenticator)
	Authorize(...auth.Policy)
	Audit(*audit.Log)
}

// Records is a sink of the audit that keeps the records.
type Records struct {
	mu  sync.Mutex
	all []audit.Record
}

// NewAudit returns a log that writes to records.
func (r *Rig) NewAudit() (*audit.Log, *Records) { return r.newAudit(false) }

// NewStrictAudit returns a strict log.
func (r *Rig) NewStrictAudit() (*audit.Log, *Records) { return r.newAudit(true) }

func (r *Rig) newAudit(strict bool) (*audit.Log, *Records) {
	r.t.Helper()
	records := &Records{}
	log, err := audit.New(audit.Config{Sinks: []audit.Sink{records}, Strict: strict})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, log.Close(context.Background())) })
	return log, records
}

// Name implements [audit.Sink].
func (*Records) Name() string { return "records" }

// Write implements [audit.Sink].
func (r *Records) Write(_ context.Context, entries []audit.Entry) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		r.all = append(r.all, *e.Record)
	}
	return len(entries), nil
}

// Close implements [audit.Sink].
func (*Records) Close() error { return nil }

// Record waits for the last record of an operation and a target.
func (s *Site) Record(operation, target string) (found audit.Record) {
	s.t.Helper()
	s.Eventually(func() bool {
		s.Records.mu.Lock()
		defer s.Records.mu.Unlock()
		ok := false
		for _, rec := range s.Records.all {
			if rec.Operation == operation && rec.Target == target {
				found, ok = rec, true
			}
		}
		return ok
	}, "the record of "+operation+" "+target)
	return found
}

// An Answer is the answer to an HTTP request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Do sends a request with a token, which may be "".
func (s *Site) Do(method, url, token, session, body string) Answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {string(s.Version)},
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	if era, _ := s.Version.Era(); era == mcp.Modern && body != "" {
		var m struct {
			Method string
			Params struct{ Name, URI string }
		}
		require.NoError(s.t, json.Unmarshal([]byte(body), &m))
		req.Header.Set("Mcp-Method", m.Method)
		if name := m.Params.Name + m.Params.URI; name != "" {
			req.Header.Set("Mcp-Name", name)
		}
	}
	resp, err := s.Client.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return Answer{resp.StatusCode, resp.Header, string(data)}
}

// Open begins a session, if the revision has some, and returns its id.
func (s *Site) Open(token string) (session string) {
	s.t.Helper()
	if era, _ := s.Version.Era(); era == mcp.Modern {
		return ""
	}
	a := s.Do(http.MethodPost, s.URL, token, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+
		string(s.Version)+`","capabilities":{},"clientInfo":{"name":"tester","version":"2.0.0"}}}`)
	require.Equal(s.t, http.StatusOK, a.Status, a.Body)
	session = a.Header.Get("Mcp-Session-Id")
	require.NotEmpty(s.t, session)
	s.Do(http.MethodPost, s.URL, token, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return session
}

// Ask sends a request in a session.
func (s *Site) Ask(token, session, method, params string) Answer {
	s.t.Helper()
	meta := ""
	if era, _ := s.Version.Era(); era == mcp.Modern {
		meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + string(s.Version) +
			`","io.modelcontextprotocol/clientInfo":{"name":"tester","version":"2.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}`
		if params != "" {
			meta += ","
		}
	}
	return s.Do(http.MethodPost, s.URL, token, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s%s}}`, method, meta, params))
}

const metadataURL = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"

// FindsCallers requires that callers without a good token are challenged, that the metadata of the
// resource is served, and that the tool who knows the caller.
func (s *Site) FindsCallers() {
	s.t.Helper()
	a := s.Ask("", "", "tools/list", "")
	require.Equal(s.t, http.StatusUnauthorized, a.Status)
	require.Equal(s.t, `Bearer scope="demo:read", resource_metadata="`+metadataURL+`"`, a.Header.Get("WWW-Authenticate"))
	require.Contains(s.t, a.Body, `"token_missing"`)

	told := map[string]bool{}
	for _, wrong := range []string{s.Token(map[string]any{"aud": "https://other.example.com"}), s.Token(map[string]any{"exp": 1}), "garbage"} {
		a := s.Ask(wrong, "", "tools/list", "")
		require.Equal(s.t, http.StatusUnauthorized, a.Status)
		require.Contains(s.t, a.Header.Get("WWW-Authenticate"), `error="invalid_token"`)
		told[a.Header.Get("WWW-Authenticate")+a.Body] = true
	}
	require.Len(s.t, told, 1, "the caller does not learn what is wrong")

	root := strings.TrimSuffix(s.URL, "/mcp")
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		a := s.Do(http.MethodGet, root+path, "", "", "")
		require.Equal(s.t, http.StatusOK, a.Status, path)
		require.Contains(s.t, a.Body, `"resource":"https://mcp.example.com/mcp"`)
	}

	token := s.Token(nil)
	a = s.Ask(token, s.Open(token), "tools/call", `"name":"who","arguments":{}`)
	require.Equal(s.t, http.StatusOK, a.Status, a.Body)
	require.Contains(s.t, a.Body, `"ann desk, without credentials"`)
	require.Equal(s.t, 1.0, s.Metric("vitrine_refusals_total", Labels{"reason": "token_audience", "by": "oauth"}))
	require.Equal(s.t, 4.0, s.Metric("vitrine_http_refused_total", Labels{"reason": "authentication"}))
	require.Equal(s.t, 1.0, s.Metric("vitrine_auth_keys", nil), "what the authenticator counts is shown")

	rec := s.Record("tools/call", "who")
	require.Equal(s.t, "ann", rec.Principal.Subject)
	require.Equal(s.t, []any{audit.DecisionAllow, "rest", audit.StageHandler, audit.OutcomeOK, "tester", "http"},
		[]any{rec.Decision, rec.Rule, rec.Stage, rec.Outcome, rec.ClientName, rec.Transport})
	require.Equal(s.t, s.Span("tools/call who").SpanContext().TraceID().String(), rec.TraceID)
}

// BindsSessions requires that only its principal can use a session.
func (s *Site) BindsSessions() {
	s.t.Helper()
	ann, bob := s.Token(nil), s.Token(map[string]any{"sub": "bob"})
	session := s.Open(ann)
	refreshed := s.Token(map[string]any{"scope": "demo:read demo:write"})
	require.Equal(s.t, http.StatusOK, s.Ask(refreshed, session, "tools/list", "").Status, "a new token of the same principal")
	unknown := s.Ask(bob, "mcp-session-00000000-0000-4000-8000-000000000000", "tools/list", "")
	require.Equal(s.t, http.StatusNotFound, unknown.Status)
	for i, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		body := ""
		if method == http.MethodPost {
			body = `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}`
		}
		a := s.Do(method, s.URL, bob, session, body)
		require.Equal(s.t, unknown.Status, a.Status, method)
		require.Equal(s.t, unknown.Body, a.Body, method)
		a.Header.Del("Date")
		unknown.Header.Del("Date")
		require.Equal(s.t, unknown.Header, a.Header, method)
		require.Equal(s.t, float64(i+1), s.Metric("vitrine_auth_foreign_uses_total", Labels{"kind": "session"}))
		rec := s.Record(method, "")
		require.Equal(s.t, "bob", rec.Principal.Subject)
		require.Equal(s.t, audit.StageSession, rec.Stage)
	}
	require.Equal(s.t, http.StatusOK, s.Ask(ann, session, "tools/list", "").Status, "the session goes on")
}

// Challenges requires that a caller without a scope is challenged, and served with it. arguments are those
// of the tool add, whose result is 3.
func (s *Site) Challenges(arguments string) {
	s.t.Helper()
	reader := s.Token(nil)
	session := s.Open(reader)
	add := `"name":"add","arguments":` + arguments
	a := s.Ask(reader, session, "tools/call", add)
	require.Equal(s.t, http.StatusForbidden, a.Status, a.Body)
	require.Equal(s.t, `Bearer error="insufficient_scope", error_description="the operation needs scopes that the access token does not have", `+
		`scope="demo:write", resource_metadata="`+metadataURL+`"`, a.Header.Get("WWW-Authenticate"))
	require.Contains(s.t, a.Body, `"id":7`)
	require.Equal(s.t, 1.0, s.Metric("vitrine_refusals_total", Labels{"reason": "insufficient_scope", "by": "write"}))
	require.Equal(s.t, 1.0, s.Metric("vitrine_requests_rejected_total", Labels{"reason": "refused"}))
	require.Equal(s.t, 1.0, s.Metric("vitrine_policy_decisions_total", Labels{"rule": "write", "effect": "need_scopes"}))
	rec := s.Record("tools/call", "add")
	require.Equal(s.t, []any{audit.DecisionNeedScopes, "write", audit.StageScope, audit.OutcomeRefused}, []any{rec.Decision, rec.Rule, rec.Stage, rec.Outcome})

	a = s.Ask(s.Token(map[string]any{"scope": "demo:read demo:write"}), session, "tools/call", add)
	require.Equal(s.t, http.StatusOK, a.Status, a.Body)
	require.Contains(s.t, a.Body, "3")
	require.Equal(s.t, 1.0, s.Metric("vitrine_policy_decisions_total", Labels{"rule": "rest", "effect": "allow"}), "each request is decided once")
}

// ChallengesAnswers requires that a caller without the scopes of a tool is challenged, and that its
// request is recorded, whatever names the fields of a form have that its user has filled in.
func (s *Site) ChallengesAnswers() {
	s.t.Helper()
	reader := s.Token(nil)
	a := s.Ask(reader, s.Open(reader), "tools/call",
		`"name":"add","arguments":{},"inputResponses":{"form":{"action":"accept","content":{"Name":"Ada","ID":7,"URI":"x"}}}`)
	require.Equal(s.t, http.StatusForbidden, a.Status, a.Body)
	require.Contains(s.t, a.Body, `"id":7`)
	require.Equal(s.t, "7", s.Record("tools/call", "add").RequestID)
}

// Hides requires that what the policy denies is in no list, and that the tool and the prompt are
// answered as unknown ones. alike says that the resource is, too.
func (s *Site) Hides(alike bool) {
	s.t.Helper()
	token := s.Token(nil)
	session := s.Open(token)
	for method, hidden := range map[string]string{"tools/list": `"fail"`, "prompts/list": `"greet"`, "resources/list": `"note://1"`} {
		a := s.Ask(token, session, method, "")
		require.Equal(s.t, http.StatusOK, a.Status, a.Body)
		require.NotContains(s.t, a.Body, hidden)
	}
	require.Contains(s.t, s.Ask(token, session, "tools/list", "").Body, `"add"`, "what needs scopes is listed")
	require.Contains(s.t, s.Ask(token, session, "resources/list", "").Body, `"note://2"`)
	for _, c := range []struct{ method, format, hidden, unknown string }{
		{"tools/call", `"name":%q,"arguments":{}`, "fail", "none"}, {"prompts/get", `"name":%q`, "greet", "none"}, {"resources/read", `"uri":%q`, "note://1", "note://9"},
	} {
		hidden := s.Ask(token, session, c.method, fmt.Sprintf(c.format, c.hidden))
		unknown := s.Ask(token, session, c.method, fmt.Sprintf(c.format, c.unknown))
		rec := s.Record(c.method, c.hidden)
		require.Equal(s.t, []any{audit.DecisionDeny, "hidden", "not for you", audit.StagePolicy, audit.OutcomeRefused},
			[]any{rec.Decision, rec.Rule, rec.Reason, rec.Stage, rec.Outcome})
		if c.method == "resources/read" && !alike {
			require.Contains(s.t, hidden.Body, "there is no resource")
			continue
		}
		require.Equal(s.t, unknown.Status, hidden.Status)
		require.Equal(s.t, strings.ReplaceAll(unknown.Body, c.unknown, c.hidden), hidden.Body)
	}
}

// RefusesAmbiguous requires that a call is refused whose arguments decoders may read differently: a policy
// may have seen others than the handler. A denied tool is still answered as an unknown one.
func (s *Site) RefusesAmbiguous() {
	s.t.Helper()
	token := s.Token(map[string]any{"scope": "demo:write"})
	session := s.Open(token)
	for _, arguments := range []string{`{"z":1,"z":2}`, `{"z":{"a":1,"a":2}}`, `{"z":"\ud800"}`, `{"z":"` + "\xff" + `"}`} {
		call := func(tool string) Answer {
			return s.Ask(token, session, "tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments))
		}
		require.Contains(s.t, call("add").Body, "two members of one name", arguments)
		require.Contains(s.t, call("fail").Body, "fail", arguments)
		require.NotContains(s.t, call("fail").Body, "two members of one name", arguments)
	}
	rec := s.Record("tools/call", "add")
	require.Equal(s.t, []any{audit.OutcomeRefused, audit.StageSchema, "ambiguous"}, []any{rec.Outcome, rec.Stage, rec.Reason})
	rec = s.Record("tools/call", "fail")
	require.Equal(s.t, []any{audit.OutcomeRefused, audit.StagePolicy, "not for you"}, []any{rec.Outcome, rec.Stage, rec.Reason})
}

// AsksLater requires that policies are asked about requests that are too large to be read ahead.
func (s *Site) AsksLater() {
	s.t.Helper()
	token := s.Token(nil)
	session := s.Open(token)
	for tool, want := range map[string]string{"add": "this needs the scopes demo:write", "fail": "fail"} {
		a := s.Ask(token, session, "tools/call", fmt.Sprintf(`"name":%q,"arguments":{"pad":%q}`, tool, strings.Repeat("x", 1<<20)))
		require.Contains(s.t, a.Body, `"error"`)
		require.Contains(s.t, a.Body, want)
		require.Equal(s.t, audit.OutcomeRefused, s.Record("tools/call", tool).Outcome)
	}
}

// DeniesSubscriptions requires that a subscription that a policy denies is recorded as a request that was refused,
// and not as a subscription. The policy must be [Policy].
func (s *Site) DeniesSubscriptions() {
	s.t.Helper()
	s.Ask("", "", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["note://1"]}`)
	require.NotContains(s.t, s.Span("subscriptions/listen").Events, "vitrine.subscription.acknowledged")
	require.Zero(s.t, s.Metric("vitrine_subscription_duration_seconds", nil))
	require.Zero(s.t, s.Metric("mcp_server_operation_duration_seconds",
		Labels{"mcp_method_name": "subscriptions/listen", "rpc_response_status_code": ""}), "its duration is that of an error")
}
