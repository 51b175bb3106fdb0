package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// clientDocument is the URL of the metadata of a client, which the authorization server knows.
const clientDocument = "https://client.example.com/client.json"

// An authorizationServer is node/authorization_server.mjs.
type authorizationServer struct {
	*process
	issuer string
	last   int // id of the last command
}

// An issuerEvent is one line of an authorization server.
type issuerEvent struct {
	ID           int
	Event        string
	Issuer       string
	Method, Path string
	Query        map[string]string
	Result       struct{ Token string }
}

// startIssuer starts an authorization server.
func startIssuer(t *testing.T, args ...string) *authorizationServer {
	t.Helper()
	as := &authorizationServer{process: start(t, program{
		path: node(t, "e2e/oauth"), args: append([]string{"node/authorization_server.mjs"}, args...),
	})}
	as.issuer = as.await(t, func(e issuerEvent) bool { return e.Event == "listening" }).Issuer
	return as
}

// await returns the first event that match accepts.
func (as *authorizationServer) await(t *testing.T, match func(issuerEvent) bool) (found issuerEvent) {
	t.Helper()
	as.stdout.await(t, "event of the authorization server", 0, func(line string) bool {
		var e issuerEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil || !match(e) {
			return false
		}
		found = e
		return true
	})
	return found
}

// do sends a command and waits for its outcome.
func (as *authorizationServer) do(t *testing.T, op string, command object) issuerEvent {
	t.Helper()
	as.last++
	id := as.last
	line := object{"id": id, "op": op}
	for k, v := range command {
		line[k] = v
	}
	if _, err := as.stdin.Write([]byte(encode(line) + "\n")); err != nil {
		t.Fatalf("write to the authorization server: %v", err)
	}
	return as.await(t, func(e issuerEvent) bool { return e.ID == id })
}

// requests returns the queries of the requests so far for a path.
func (as *authorizationServer) requests(t *testing.T, path string) (queries []map[string]string) {
	t.Helper()
	as.do(t, "sync", nil) // its events come in order: those before this are here then
	for _, line := range as.stdout.snapshot() {
		var e issuerEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("the authorization server wrote %q: %v", line, err)
		}
		if e.Path == path {
			queries = append(queries, e.Query)
		}
	}
	return queries
}

// token gets an access token for a program of its own (the grant client_credentials).
func (as *authorizationServer) token(c *http.Client, resource string) (string, error) {
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"demo:read"}, "resource": {resource}}
	req, err := http.NewRequest(http.MethodPost, as.issuer+"/token", strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("job", url.QueryEscape("secret of job"))
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		AccessToken string `json:"access_token"`
		Error       string
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if answer.AccessToken == "" {
		return "", fmt.Errorf("no token: %s, %q", resp.Status, answer.Error)
	}
	return answer.AccessToken, nil
}

// mustToken is token for tests that cannot go on without.
func (as *authorizationServer) mustToken(t *testing.T, resource string) string {
	t.Helper()
	token, err := as.token(httpClient(t), resource)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// protect starts a server that takes the tokens of an issuer for its own URL, which is known only
// once its port is.
func protect(t *testing.T, as *authorizationServer, adjusts ...adjust) *server {
	t.Helper()
	for range 5 {
		addr := freeAddress(t)
		s := &server{process: start(t, everything(append([]adjust{withArgs(
			"--addr", addr, "--oauth-issuer", as.issuer, "--oauth-resource", "http://"+addr+"/mcp",
			"--oauth-scopes", "demo:read,demo:write,demo:admin",
		)}, adjusts...)...))}
		var taken bool
		eventually(t, func() error {
			log := s.stderr.text()
			taken = !s.running() && strings.Contains(log, "address already in use")
			if taken || strings.Contains(log, "service.ready") {
				return nil
			}
			return errors.New("the server is not ready")
		})
		if !taken {
			s.findEndpoints(t)
			t.Cleanup(func() { s.end(t) })
			return s
		}
	}
	t.Fatal("no free port")
	return nil
}

// callWith calls whoami with a token.
func (s *server) callWith(c *http.Client, token string) (a answer, err error) {
	r := call(1, "whoami", object{})
	header := r.headers()
	header.Set("Authorization", "Bearer "+token)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.trySend(ctx, c, http.MethodPost, header, r.frame())
}

// expect calls whoami and checks the status.
func (s *server) expect(t *testing.T, what, token string, status int) answer {
	t.Helper()
	a, err := s.callWith(httpClient(t), token)
	if err != nil || a.status != status {
		t.Errorf("%s: %d %s %v, want %d", what, a.status, a.body, err, status)
	}
	return a
}

// An identity is the result of whoami.
type identity struct {
	Issuer, Subject, Client string
	Scopes                  []string
}

func (d *driver) whoami(t *testing.T) (who identity) {
	t.Helper()
	// Not the structured content, which the oldest revisions do not have.
	r := d.call(t, "whoami", object{})
	if r.Result == nil || r.Result.IsError || json.Unmarshal([]byte(r.text()), &who) != nil {
		t.Fatalf("whoami: %+v %+v", r.Result, r.Error)
	}
	slices.Sort(who.Scopes)
	return who
}

// The official clients need nothing but the server's URL: they find the authorization server,
// make themselves known to it, get a token, and a wider one when a call needs that.
func TestClientsGetAuthorizedByThemselves(t *testing.T) {
	for _, c := range []struct {
		name, library, mode, document string
		widened                       string // what the second authorization asks for
	}{
		{"registered client of today", "client", "modern", "", "demo:read demo:write"},
		{"client with a metadata document", "client", "modern", clientDocument, "demo:read demo:write"},
		{"legacy client", "client", "legacy", "", "demo:read demo:write"},
		{"former client", "sdk", "legacy", "", "demo:write"},
		{"Go SDK", "gosdk", "2026-07-28", clientDocument, "demo:read demo:write"},
		{"Go SDK with the revision before", "gosdk", "2025-11-25", clientDocument, "demo:read demo:write"},
	} {
		t.Run(c.name, func(t *testing.T) {
			as := startIssuer(t)
			t.Parallel()
			s := protect(t, as)
			p := command(t, c.library, c.mode, "oauth", s.mcp)
			if c.document != "" {
				p.args = append(p.args, c.document)
			}
			d, _ := drive(t, p)

			who := d.whoami(t)
			if who.Issuer != as.issuer || who.Subject != "ann" || who.Client == "" || !slices.Equal(who.Scopes, []string{"demo:read"}) {
				t.Errorf("after the first authorization: %+v", who)
			}
			if c.document != "" && who.Client != c.document {
				t.Errorf("the client is %q, want the URL of its metadata", who.Client)
			}
			if r := d.call(t, "scoped", object{}); r.text() != "You may write." {
				t.Errorf("scoped: %+v %+v", r.Result, r.Error)
			}
			if who := d.whoami(t); !slices.Contains(who.Scopes, "demo:write") {
				t.Errorf("after the second authorization: %+v", who)
			}
			checkAuthorizations(t, as, s, who.Client, c.widened)
			registered := len(as.requests(t, "/reg"))
			if want := int(count1(c.document == "")); registered != want {
				t.Errorf("%d registrations, want %d", registered, want)
			}
			m := s.metrics(t)
			for _, reason := range []string{"token_missing", "insufficient_scope"} {
				if n := m.sum("vitrine_refusals_total", "reason", reason); n != 1 {
					t.Errorf("%v refusals for %s, want 1: %v", n, reason, m.of("vitrine_refusals_total"))
				}
			}
			d.must(t, "end", nil)
		})
	}
}

// checkAuthorizations checks the two requests of a client for an authorization.
func checkAuthorizations(t *testing.T, as *authorizationServer, s *server, client, widened string) {
	t.Helper()
	asked := as.requests(t, "/auth")
	if len(asked) != 2 {
		t.Fatalf("%d authorizations, want 2: %v", len(asked), asked)
	}
	for i, scope := range []string{"demo:admin demo:read demo:write", widened} {
		q := asked[i]
		scopes := slices.DeleteFunc(strings.Fields(q["scope"]), func(s string) bool { return s == "offline_access" })
		slices.Sort(scopes)
		if q["client_id"] != client || q["resource"] != s.mcp || q["code_challenge_method"] != "S256" || strings.Join(scopes, " ") != scope {
			t.Errorf("authorization %d: %v, want one of %s for %s at %s", i+1, q, client, scope, s.mcp)
		}
	}
}

// New keys of an issuer fail no call: neither those with the tokens of today, nor those with the
// tokens before, as long as the issuer publishes their keys.
func TestKeysRotateWhileCallsRun(t *testing.T) {
	as := startIssuer(t)
	t.Parallel()
	s := protect(t, as)
	const (
		workers   = 4
		rotations = 6 // more than the fetches that tokens may cause at once in vain
	)
	old := as.mustToken(t, s.mcp)
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * workers}}
	t.Cleanup(c.CloseIdleConnections)
	var stop atomic.Bool
	var calls [workers]atomic.Int64
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for !stop.Load() {
				token, err := as.token(c, s.mcp)
				if err != nil {
					t.Errorf("token: %v", err)
					return
				}
				for _, token := range []string{token, old, token} {
					if a, err := s.callWith(c, token); err != nil || a.status != http.StatusOK {
						t.Errorf("call: %d %s %v", a.status, a.body, err)
						return
					}
				}
				calls[i].Add(1)
			}
		})
	}
	// Each worker begins and ends a round with the new keys. Without one, another has failed.
	for n := range rotations + 1 {
		var before [workers]int64
		for i := range calls {
			before[i] = calls[i].Load()
		}
		eventually(t, func() error {
			for i := range calls {
				if done := calls[i].Load(); !t.Failed() && done < before[i]+2 {
					return fmt.Errorf("rotation %d: a worker has made %d rounds, before: %d", n, done, before[i])
				}
			}
			return nil
		})
		if n < rotations {
			as.do(t, "rotate", nil)
		}
	}
	stop.Store(true)
	wg.Wait()
	m := s.metrics(t)
	if n := m.sum("vitrine_auth_key_refreshes_total", "cause", "unknown_key", "result", "changed"); n != rotations {
		t.Errorf("keys were fetched %v times for a new key, want %d: %v", n, rotations, m.of("vitrine_auth_key_refreshes_total"))
	}
	if n := m.sum("vitrine_auth_keys", "issuer", as.issuer); n != rotations+1 {
		t.Errorf("%v keys, want %d", n, rotations+1)
	}
	if n := m.sum("vitrine_refusals_total"); n != 0 {
		t.Errorf("%v refusals", n)
	}
}

// When an issuer withdraws its keys at once, a client with an old token gets a new one by itself.
func TestClientGetsANewTokenWhenKeysAreWithdrawn(t *testing.T) {
	as := startIssuer(t)
	t.Parallel()
	s := protect(t, as)
	d, _ := drive(t, command(t, "client", "modern", "oauth", s.mcp))
	d.whoami(t)
	as.do(t, "replace", nil)
	s.expect(t, "a token with the new key", as.mustToken(t, s.mcp), http.StatusOK)
	if who := d.whoami(t); who.Subject != "ann" {
		t.Errorf("with the new key: %+v", who)
	}
	if n := s.metrics(t).sum("vitrine_refusals_total", "reason", "token_signature"); n != 1 {
		t.Errorf("%v refusals of the old token, want 1", n)
	}
	d.must(t, "end", nil)
}

// Without its issuer the server goes on with the keys that it has. Tokens with other keys are
// refused, and do not make it ask again and again.
func TestIssuerIsDown(t *testing.T) {
	as := startIssuer(t)
	t.Parallel()
	s := protect(t, as)
	known, unseen := as.mustToken(t, s.mcp), as.mustToken(t, s.mcp)
	s.expect(t, "a token", known, http.StatusOK)
	a := s.expect(t, "a token for another resource", as.mustToken(t, s.mcp+"/other"), http.StatusUnauthorized)
	if challenge := a.header.Get("WWW-Authenticate"); !strings.Contains(challenge, `error="invalid_token"`) {
		t.Errorf("the challenge is %s", challenge)
	}
	const attempts = 20
	forged := make([]string, attempts)
	for i := range forged {
		forged[i] = as.do(t, "forge", object{"resource": s.mcp}).Result.Token
	}
	s.expect(t, "a forged token", as.do(t, "forge", object{"resource": s.mcp}).Result.Token, http.StatusUnauthorized)

	as.signal(t, syscall.SIGTERM)
	as.exit(t)
	begun := time.Now()
	for _, token := range forged {
		a := s.expect(t, "a forged token without the issuer", token, http.StatusServiceUnavailable)
		if a.header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %v", a.header)
		}
	}
	s.expect(t, "the known token without the issuer", known, http.StatusOK)
	s.expect(t, "a new token with a known key without the issuer", unseen, http.StatusOK)
	// Three fetches at once, and one more in 5 seconds.
	most := 3 + time.Since(begun).Seconds()/5
	m := s.metrics(t)
	failed := m.sum("vitrine_auth_key_refreshes_total", "cause", "unknown_key", "result", "failed")
	spared := m.sum("vitrine_auth_key_refreshes_total", "cause", "unknown_key", "result", "too_soon")
	if failed < 1 || failed > most || failed+spared != attempts {
		t.Errorf("%v fetches have failed, want 1 to %v, and %v were spared, want the others of %d", failed, most, spared, attempts)
	}
	if n := m.sum("vitrine_refusals_total", "reason", "issuer_unavailable"); n != attempts {
		t.Errorf("%v refusals without the issuer, want %d", n, attempts)
	}
}

// Tokens that only the issuer can read are verified by asking it.
func TestOpaqueTokensAreIntrospected(t *testing.T) {
	as := startIssuer(t, "opaque")
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret of vitrine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := protect(t, as, withArgs("--oauth-introspection-client", "vitrine", "--oauth-introspection-secret-file", secret))
	d, _ := drive(t, command(t, "client", "modern", "oauth", s.mcp))
	for range 2 { // both from the cache: the first request of the client was verified
		who := d.whoami(t)
		if who.Issuer != as.issuer || who.Subject != "ann" || !slices.Equal(who.Scopes, []string{"demo:read"}) {
			t.Errorf("with an opaque token: %+v", who)
		}
	}
	other := as.mustToken(t, s.mcp+"/other")
	if strings.Contains(other, ".") {
		t.Errorf("the token %s is not opaque", other)
	}
	s.expect(t, "an opaque token for another resource", other, http.StatusUnauthorized)
	s.expect(t, "an opaque token of nobody", "nobody", http.StatusUnauthorized)
	if n := len(as.requests(t, "/token/introspection")); n != 3 {
		t.Errorf("%d introspections, want 3", n)
	}
	m := s.metrics(t)
	for _, reason := range []string{"token_audience", "token_inactive"} {
		if n := m.sum("vitrine_refusals_total", "reason", reason); n != 1 {
			t.Errorf("%v refusals for %s, want 1", n, reason)
		}
	}
	d.must(t, "end", nil)
}
