package service_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/issuertest"
	"github.com/vitrine-mcp/vitrine/service"
)

const resource = issuertest.Resource

// An issuer is an authorization server that issues what tests ask for.
type issuer struct{ *issuertest.Issuer }

func newIssuer(t *testing.T) issuer { return issuer{issuertest.New(t)} }

func (i issuer) token(subject, scope, audience string) string {
	return i.Token(issuertest.Object{"sub": subject, "scope": scope, "aud": audience})
}

func (i issuer) settings() []string {
	return []string{"--oauth-issuer=" + i.URL, "--oauth-resource=" + resource, "--oauth-scopes=a,b"}
}

// A protected server needs no line of code.
func TestAccessTokensSayWhoCalls(t *testing.T) {
	i := newIssuer(t)
	r := start(t, whoServer(), i.settings()...)
	require.Equal(t, "ann a b", r.call("who", "{}", bearer(i.token("ann", "a b", resource))).text())

	got := r.call("who", "{}")
	require.Equal(t, http.StatusUnauthorized, got.status)
	challenge := got.header.Get("WWW-Authenticate")
	require.Contains(t, challenge, `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`)
	require.NotContains(t, challenge, "invalid_token")

	got = r.call("who", "{}", bearer(i.token("ann", "a b", "https://other.example.com")))
	require.Equal(t, http.StatusUnauthorized, got.status)
	require.Contains(t, got.header.Get("WWW-Authenticate"), `error="invalid_token"`)
	_, metrics := r.get(t, "/metrics")
	require.Contains(t, metrics, `vitrine_refusals_total{by="oauth",reason="token_audience"} 1`)

	base := strings.TrimSuffix(r.MCP, "/mcp")
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		resp, body := r.do(t, http.MethodGet, base+path, "")
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
		require.Contains(t, body, i.URL)
		require.Contains(t, body, resource)
	}
}

func TestOptionalOAuthServesCallersWithoutAToken(t *testing.T) {
	i := newIssuer(t)
	r := start(t, whoServer(), append(i.settings(), "--auth-optional", "--auth-tokens-file="+tokensFile(t, "bob's token", "bob"))...)
	require.Equal(t, "nobody", r.call("who", "{}").text())
	require.Equal(t, "ann a", r.call("who", "{}", bearer(i.token("ann", "a", resource))).text())
	require.Equal(t, "bob", r.call("who", "{}", bearer("bob's token")).text(), "static tokens and those of an issuer")
	require.Equal(t, http.StatusUnauthorized, r.call("who", "{}", bearer("eves-token")).status)
}

func TestCheckConfigAsksTheIssuer(t *testing.T) {
	i := newIssuer(t)
	out, err := check(t, i.settings()...)
	require.NoError(t, err)
	require.Equal(t, "ok: the settings, and the files that they name\nok: the metadata and the keys of the issuers\n", out)
	out, err = check(t)
	require.NoError(t, err)
	require.Equal(t, "ok: the settings, and the files that they name\n", out)

	_, err = check(t, "--oauth-issuer="+i.URL+"/other", "--oauth-resource="+resource)
	require.ErrorContains(t, err, "issuer "+i.URL+"/other")
	for want, args := range map[string][]string{
		"set --oauth-issuer":                           {"--oauth-resource=" + resource},
		"set --oauth-resource":                         {"--oauth-issuer=" + i.URL},
		"http is accepted only for a loopback address": {"--oauth-issuer=http://login.example.com", "--oauth-resource=" + resource},
		"the secret for introspection":                 append(i.settings(), "--oauth-introspection-client=me"),
	} {
		_, err := check(t, args...)
		require.ErrorContains(t, err, want)
	}
}

// The issuer never sees an admin token: it is a secret of this process, and asking about it in vain
// would use up the failures that the operator's address may have. Other tokens may be those of
// subjects that are operators.
func TestTheIssuerIsNotAskedAboutAdminTokens(t *testing.T) {
	i := newIssuer(t)
	i.Answer(func(w http.ResponseWriter, r *http.Request) {
		var document any
		switch r.URL.Path {
		case issuertest.MetadataPath:
			document = issuertest.Object{
				"issuer": i.URL, "jwks_uri": i.URL + issuertest.KeysPath, "introspection_endpoint": i.URL + "/introspect",
				"response_types_supported": []string{"code"},
			}
		case "/introspect":
			claims := i.Claims(issuertest.Object{"sub": r.FormValue("token")})
			claims["active"] = r.FormValue("token") == "ann"
			document = claims
		default:
			i.Serve(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(document) // an error is that of the connection
	})
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("a secret"), 0o600))
	r := start(t, whoServer(), append(i.settings(), "--oauth-introspection-client=me", "--oauth-introspection-secret-file="+secret,
		"--admin-subjects=ann", "--admin-token-file="+adminTokenFile(t))...)

	for _, tt := range []struct {
		credential string
		status     int
		asked      int // how often the issuer was asked so far
	}{
		{operatorToken, http.StatusOK, 0},
		{"Basic " + base64.StdEncoding.EncodeToString([]byte("bob:a-token-of-an-operator")), http.StatusOK, 0},
		{"Bearer ann", http.StatusOK, 1},
		{"Bearer eve", http.StatusUnauthorized, 2},
	} {
		resp, body := r.do(t, http.MethodGet, r.Admin+"/debug/requests", "", "Authorization", tt.credential)
		require.Equal(t, tt.status, resp.StatusCode, "%s: %s", tt.credential, body)
		require.Equal(t, tt.asked, i.Asked("/introspect"), tt.credential)
	}
}

func TestThePolicyOfAFileDecides(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(rules, []byte(text), 0o600)) }
	write("default: deny\nrules:\n  - name: staff\n    effect: allow\n    when: principal.subject == \"ann\"\n")
	args := []string{"--policy=" + rules, "--auth-tokens-file=" + tokensFile(t, "ann's token", "ann"), "--auth-optional"}
	r := start(t, whoServer(), args...)
	require.Equal(t, "ann", r.call("who", "{}", bearer("ann's token")).text())
	hidden, unknown := r.call("who", "{}"), r.call("unknown", "{}")
	require.Equal(t, unknown.status, hidden.status)
	require.NotNil(t, hidden.Error)
	_, metrics := r.get(t, "/metrics")
	require.Contains(t, metrics, `vitrine_policy_decisions_total{effect="allow",rule="staff"} 1`)

	require.NotContains(t, r.stderr.String(), "policy.finding")
	write("default: deny\nrules:\n  - name: gone\n    effect: allow\n    names: [gone]\n")
	require.Contains(t, start(t, whoServer(), args...).stderr.String(), "rule=gone")

	dry := start(t, whoServer(), append(args, "--policy-dry-run")...)
	require.Equal(t, "nobody", dry.call("who", "{}").text())

	write("default: deny\nrules:\n  - name: staff\n    effect: maybe\n")
	err := service.Run(t.Context(), whoServer(), quiet(args...)...)
	require.ErrorContains(t, err, "line 3: rule staff")
}

// Each call has its record, those that are refused too.
func TestTheAuditOfAProcess(t *testing.T) {
	dir := t.TempDir()
	file, key := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdeX"))), 0o600))
	r := start(t, whoServer(), "--audit-file="+file, "--audit-key-file="+key, "--audit-strict",
		"--auth-tokens-file="+tokensFile(t, "ann's token", "ann"))
	require.Equal(t, "ann", r.call("who", "{}", bearer("ann's token")).text())
	require.Equal(t, http.StatusUnauthorized, r.call("who", "{}", bearer("eve's token")).status)
	r.stop()
	require.NoError(t, r.wait(t))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	records := strings.Split(strings.TrimSpace(string(text)), "\n")
	served, refused := 0, 0
	for _, line := range records {
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		if record["subject"] == "ann" {
			served++
			require.Equal(t, "tools/call", record["operation"])
			require.Equal(t, "who", record["target"])
			require.Equal(t, "allow", record["decision"])
			require.NotEmpty(t, record["outcome"])
			require.NotEmpty(t, record["trace_id"])
		}
		if strings.Contains(line, "token_unknown") {
			refused++
		}
	}
	require.Equal(t, []int{1, 1}, []int{served, refused}, "%s", text)
	require.NotContains(t, string(text), "ann's token")

	for want, args := range map[string][]string{
		"--audit-strict has no effect without --audit-file": {"--audit-strict"},
		"audit: key": {"--audit-file=" + file, "--audit-key-file=" + dir},
		"auditfile":  {"--audit-file=" + dir},
	} {
		err := service.Run(t.Context(), whoServer(), quiet(args...)...)
		require.ErrorContains(t, err, want)
	}
}
