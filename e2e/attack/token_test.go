package attack

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/vitrine-mcp/vitrine/internal/issuertest"
)

// protected starts a server that accepts the tokens of an issuer.
func (i *issuer) protected(t *testing.T, args ...string) *target {
	t.Helper()
	s := attacked(t, append(i.settings(), args...)...)
	s.identify = func(header http.Header, name string) { header.Set("Authorization", "Bearer "+i.bearer(name)) }
	return s
}

// sendToken calls echo with credentials of any form.
func (c *caller) sendToken(t *testing.T, authorization ...string) response {
	t.Helper()
	what := echo("x")
	h := what.header()
	h["Authorization"] = authorization
	return c.must(t, http.MethodPost, h, what.frame(1, true))
}

// answerOf is everything that a caller learns from a response.
func answerOf(r response) string {
	h := r.header.Clone()
	h.Del("Date")
	return fmt.Sprint(r.status, h, r.body)
}

// A wrongToken is a token that must be refused, and the reason that the operator must learn.
type wrongToken struct{ token, reason string }

// wrongTokens are all kinds of wrong tokens. evil is a server of the attacker.
func (i *issuer) wrongTokens(t *testing.T, evil string) map[string]wrongToken {
	t.Helper()
	other, now := newIssuer(t), time.Now()
	all := map[string]wrongToken{}
	claims := func(reason string, cases map[string]object) {
		for name, changes := range cases {
			all[name] = wrongToken{i.Sign(nil, changes), reason}
		}
	}
	claims("token_audience", map[string]object{
		"of another resource": {"aud": "https://mcp.example.com/other"}, "of a host": {"aud": "https://mcp.example.com"},
		"with a slash": {"aud": issuertest.Resource + "/"}, "in upper case": {"aud": strings.ToUpper(issuertest.Resource)}, "with a query": {"aud": issuertest.Resource + "?x=1"},
		"of a beginning": {"aud": issuertest.Resource[:len(issuertest.Resource)-1]}, "of several others": {"aud": []string{"a", "https://mcp.example.com/mcp2"}},
		"of nobody": {"aud": nil}, "of an empty list": {"aud": []string{}}, "of the issuer": {"aud": i.URL}, "of the client": {"aud": "desk"},
	})
	claims("token_issuer", map[string]object{
		"another issuer": {"iss": other.URL}, "issuer with a slash": {"iss": i.URL + "/"}, "issuer in upper case": {"iss": strings.ToUpper(i.URL)},
		"issuer with a path": {"iss": i.URL + "/keys"}, "no issuer": {"iss": nil}, "an empty issuer": {"iss": ""}, "issuer of the attacker": {"iss": evil},
	})
	claims("token_expired", map[string]object{"expired": {"exp": now.Add(-time.Minute).Unix()}, "expired long ago": {"exp": 1}})
	claims("token_not_yet_valid", map[string]object{"not yet valid": {"nbf": now.Add(time.Minute).Unix()}})
	claims("token_claims", map[string]object{
		"no end": {"exp": nil}, "an end that is text": {"exp": "never"}, "no subject": {"sub": nil}, "a subject that is a list": {"sub": []string{"ann"}},
		"bound to a key": {"cnf": object{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}},
	})
	for name, header := range map[string]object{
		"no type": {"typ": nil}, "type JWT": {"typ": "JWT"}, "an ID token": {"typ": "id+jwt"}, "a logout token": {"typ": "logout+jwt"},
		"a proof": {"typ": "dpop+jwt"}, "critical extensions": {"crit": []string{"exp"}, "b64": false},
	} {
		all[name] = wrongToken{i.Sign(header, nil), "token_type"}
	}
	i.addUnsigned(t, all)
	i.addForeignKeys(all, other, evil)
	return all
}

// addUnsigned adds tokens without a signature, and with one that the public key makes.
func (i *issuer) addUnsigned(t *testing.T, all map[string]wrongToken) {
	t.Helper()
	good := i.Sign(nil, nil)
	head, _, _ := strings.Cut(good, ".")
	for _, alg := range []string{"none", "None", "NONE", "nOnE", ""} {
		unsigned := issuertest.Signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, object{"alg": alg}, i.Claims(nil))
		all["algorithm "+alg] = wrongToken{unsigned, "token_algorithm"}
		all["algorithm "+alg+" and a signature"] = wrongToken{unsigned + good[strings.LastIndexByte(good, '.')+1:], "token_algorithm"}
	}
	der, err := x509.MarshalPKIXPublicKey(&i.rsa.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := json.Marshal(publicRSA("rsa", i.rsa))
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string][]byte{
		"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "JWK": jwk, "modulus": i.rsa.N.Bytes(), "nothing": {},
	} {
		all["HS256 with the public key as "+name] = wrongToken{hmacWith(secret, object{"kid": "rsa"}, i.Claims(nil)), "token_algorithm"}
	}
	for name, signature := range map[string][]byte{
		"empty": nil, "zero": make([]byte, 64), "short": make([]byte, 63), "long": make([]byte, 65), "DER": derSignature(good, i.Key),
	} {
		all["signature "+name] = wrongToken{resigned(good, signature), "token_signature"}
	}
	all["other claims"] = wrongToken{head + "." + strings.Split(i.Sign(nil, object{"sub": "root"}), ".")[1] + good[strings.LastIndexByte(good, '.'):], "token_signature"}
	all["the key of another algorithm"] = wrongToken{i.Sign(object{"kid": "rsa"}, nil), "token_signature"}
	all["the algorithm of another key"] = wrongToken{issuertest.Signed(jwt.SigningMethodRS256, i.rsa, nil, i.Claims(nil)), "token_signature"}
	all["not a token"] = wrongToken{"letmein", "token_malformed"}
	all["two parts"] = wrongToken{good[:strings.LastIndexByte(good, '.')], "token_malformed"}
	all["four parts"] = wrongToken{good + ".x", "token_malformed"}
	all["no JSON"] = wrongToken{encoded([]byte("a")) + "." + encoded([]byte("b")) + "." + encoded([]byte("c")), "token_malformed"}
}

// addForeignKeys adds tokens that somebody else has signed, and that say where the key is.
func (i *issuer) addForeignKeys(all map[string]wrongToken, other *issuer, evil string) {
	forge := func(header object) string {
		return issuertest.Signed(jwt.SigningMethodES256, other.Key, header, i.Claims(nil))
	}
	for name, header := range map[string]object{
		"no more": nil, "jku": {"jku": evil + "/keys"}, "jwk": {"jwk": issuertest.PublicEC("ec", other.Key)},
		"x5u": {"x5u": evil + "/certificate"}, "x5c": {"x5c": []string{"MIIB"}}, "everything": {"jku": evil, "x5u": evil, "jwk": issuertest.PublicEC("ec", other.Key), "kid": nil},
	} {
		all["key of another, "+name] = wrongToken{forge(header), "token_signature"}
	}
	for _, id := range []string{evil + "/keys", "../../../../dev/null", "' or 1=1 --", "EC", "ec\x00", strings.Repeat("k", 4000)} {
		all[fmt.Sprintf("key id %.20q", id)] = wrongToken{forge(object{"kid": id}), "token_signature"}
	}
	all["the other issuer's own"] = wrongToken{other.Sign(nil, nil), "token_issuer"}
}

// Every wrong token gets the same answer, to the byte. Metrics tell the operator what was wrong. Nothing
// that a token names is fetched, and no log and no page has a token.
func TestWrongTokensGetOneAnswer(t *testing.T) {
	static := writeFile(t, "tokens", "0000000000000000000000000000000000000000000000000000000000000000 bob\n")
	for name, args := range map[string][]string{"issuer": nil, "issuer and static tokens": {"--auth-tokens-file", static}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fetched atomic.Int64
			evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
			t.Cleanup(evil.Close)
			i := newIssuer(t)
			s := i.protected(t, append(args, "--log-level", "debug")...)
			undisturbed := s.others(t)
			c := s.caller(t, attacker, "")
			wrong := i.wrongTokens(t, evil.URL)
			first, want := "", map[string]float64{}
			for _, name := range slices.Sorted(maps.Keys(wrong)) {
				r := c.sendToken(t, "Bearer "+wrong[name].token)
				if first == "" {
					first = answerOf(r)
				}
				if got := answerOf(r); r.status != http.StatusUnauthorized || got != first {
					t.Errorf("%s: %s\nwhich is unlike\n%s", name, got, first)
				}
				want[wrong[name].reason]++
			}
			if !strings.Contains(first, `error="invalid_token"`) || !strings.Contains(first, "resource_metadata=") {
				t.Errorf("no challenge: %s", first)
			}
			s.refusedFor(t, want)
			if n := fetched.Load(); n != 0 {
				t.Errorf("the server has asked the attacker's server %d times", n)
			}
			undisturbed()
			s.hidesTokens(t, wrong)
		})
	}
}

// refusedFor checks what the metrics say of refused tokens. A token that is no JWT is
// unknown to the authenticator that is asked last.
func (s *target) refusedFor(t *testing.T, want map[string]float64) {
	t.Helper()
	m, all, wanted := s.metrics(t), 0.0, 0.0
	for reason, n := range want {
		wanted += n
		if got := m.sum("vitrine_refusals_total", `by="oauth"`, `reason="`+reason+`"`); got != n {
			t.Errorf("%v tokens were refused for %s, want %v", got, reason, n)
		}
	}
	if all = m.sum("vitrine_refusals_total"); all != wanted {
		t.Errorf("%v refusals, want %v", all, wanted)
	}
}

// hidesTokens checks that no log and no page has a part of a token that is secret.
func (s *target) hidesTokens(t *testing.T, tokens map[string]wrongToken) {
	t.Helper()
	text := strings.Join(s.log.all(), "")
	for _, path := range []string{"/metrics", "/debug/requests", "/debug/traces", "/debug/flight"} {
		_, body, err := s.get(path, "Accept", "application/json")
		if err != nil {
			t.Fatal(err)
		}
		text += body
	}
	for name, wrong := range tokens {
		secret := wrong.token[strings.LastIndexByte(wrong.token, '.')+1:]
		if len(secret) > 20 && strings.Contains(text, secret) {
			t.Errorf("a log or a page has the token %s", name)
		}
	}
}

// Credentials that cannot be read are refused without a guess, and those of good form are found.
func TestOddCredentials(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	s := i.protected(t)
	undisturbed := s.others(t)
	c, good := s.caller(t, attacker, ""), i.bearer("ann")
	for name, authorization := range map[string][]string{
		"lower case": {"bearer " + good}, "upper case": {"BEARER " + good}, "two blanks": {"Bearer  " + good}, "blanks around": {"  Bearer " + good + "  "},
	} {
		if r := c.sendToken(t, authorization...); r.text() != "x" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	malformed := ""
	for name, authorization := range map[string][]string{
		"twice": {"Bearer " + good, "Bearer " + good}, "good and bad": {"Bearer " + good, "Bearer x"}, "bad and good": {"Bearer x", "Bearer " + good},
		"two schemes": {"Basic YTpi", "Bearer " + good}, "empty": {"Bearer "}, "the scheme alone": {"Bearer"},
		"a list": {"Bearer " + good + ", Bearer " + good}, "more behind": {"Bearer " + good + " x"}, "quotes": {`Bearer "` + good + `"`},
		"not ASCII": {"Bearer " + good + "é"}, "a parameter": {"Bearer token=" + good + ";x"},
	} {
		r := c.sendToken(t, authorization...)
		if malformed == "" {
			malformed = answerOf(r)
		}
		if got := answerOf(r); r.status != http.StatusBadRequest || got != malformed {
			t.Errorf("%s: %s\nwhich is unlike\n%s", name, got, malformed)
		}
	}
	missing := answerOf(c.sendToken(t))
	if !strings.HasPrefix(missing, "401 ") || strings.Contains(missing, "invalid_token") {
		t.Errorf("without a token: %s", missing)
	}
	for name, authorization := range map[string]string{"another scheme": "Basic YTpi", "no scheme": good, "a tab": "Bearer\t" + good, "a proof": "DPoP " + good} {
		if got := answerOf(c.sendToken(t, authorization)); got != missing {
			t.Errorf("%s: %s\nwhich is unlike\n%s", name, got, missing)
		}
	}
	s.tokensElsewhere(t, good, missing)
	s.longTokens(t, i)
	undisturbed()
	for _, line := range s.log.all() {
		if strings.Contains(line, good) {
			t.Errorf("the log has a token: %.300s", line)
		}
	}
}

// tokensElsewhere sends a good token where no token is taken from.
func (s *target) tokensElsewhere(t *testing.T, good, missing string) {
	t.Helper()
	c, what := s.caller(t, attacker, ""), echo("x")
	for name, h := range map[string]http.Header{
		"Cookie": {"Cookie": {"access_token=" + good}}, "X-Access-Token": {"X-Access-Token": {good}}, "Proxy-Authorization": {"Proxy-Authorization": {"Bearer " + good}},
		"X-Forwarded-Access-Token": {"X-Forwarded-Access-Token": {good}}, "X-Original-Authorization": {"X-Original-Authorization": {"Bearer " + good}},
	} {
		header := what.header()
		maps.Copy(header, h)
		if got := answerOf(c.must(t, http.MethodPost, header, what.frame(1, true))); got != missing {
			t.Errorf("a token in %s: %s", name, got)
		}
	}
	for _, query := range []string{"access_token=" + good, "token=" + good, "authorization=Bearer%20" + good} {
		raw := s.rawEcho(1)
		raw.line = "POST /mcp?" + query + " HTTP/1.1"
		for _, r := range s.exchange(t, raw.String()) {
			if r.status != http.StatusUnauthorized {
				t.Errorf("a token in the query: %d %s", r.status, r.body)
			}
		}
	}
}

// longTokens sends tokens that are longer than any token is. The server reads no key for them.
func (s *target) longTokens(t *testing.T, i *issuer) {
	t.Helper()
	before := i.Asked(issuertest.KeysPath)
	for _, size := range []int{17 << 10, 64 << 10, 512 << 10, 4 << 20} {
		w := s.wire(t, attacker)
		raw := s.rawEcho(1).set("Authorization", "Bearer "+encoded([]byte(`{"alg":"ES256","kid":"new"}`))+"."+strings.Repeat("a", size)+".b")
		_, _ = io.WriteString(w, raw.String()) // the server may hang up
		r, err := w.response()
		if err == nil && r.status != http.StatusUnauthorized && r.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a token of %d bytes: %d %s", size, r.status, r.body)
		}
		if size < 20<<10 && r.limit() != "max_token_bytes" {
			t.Errorf("a token of %d bytes: %v %d %s", size, err, r.status, r.body)
		}
	}
	if got := i.Asked(issuertest.KeysPath); got != before {
		t.Errorf("long tokens have made the server ask for keys %d times", got-before)
	}
}

// A flood of unknown key ids makes the server ask the issuer only a few times. Callers with good tokens
// go on, and a new key of the issuer is found.
func TestUnknownKeysDoNotFloodTheIssuer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	s := i.protected(t)
	undisturbed := s.others(t)
	began, before := time.Now(), i.Asked(issuertest.KeysPath)
	other := newIssuer(t)
	c, good := s.caller(t, attacker, ""), s.caller(t, bystanders, "olga")
	first := ""
	for n := range 2000 {
		r := c.sendToken(t, "Bearer "+issuertest.Signed(jwt.SigningMethodES256, other.Key, object{"kid": fmt.Sprint("k", n)}, i.Claims(nil)))
		if first == "" {
			first = answerOf(r)
		}
		if got := answerOf(r); r.status != http.StatusUnauthorized || got != first {
			t.Fatalf("key id %d: %s\nwhich is unlike\n%s", n, got, first)
		}
		if n%200 == 0 {
			if r := good.modern(t, n, echo("x")); r.text() != "x" {
				t.Errorf("a good caller during the flood: %d %s", r.status, r.body)
			}
		}
	}
	// Three at once, and one in 5 s.
	if got, most := i.Asked(issuertest.KeysPath)-before, 4+int(time.Since(began)/(5*time.Second)); got > most {
		t.Errorf("2000 unknown key ids made the server ask for the keys %d times, want at most %d", got, most)
	}
	undisturbed()
	key := i.Rotate("new")
	fresh := issuertest.Signed(jwt.SigningMethodES256, key, object{"kid": "new"}, i.Claims(nil))
	eventually(t, func() error {
		if r := c.sendToken(t, "Bearer "+fresh); r.text() != "x" {
			return fmt.Errorf("a token of a new key: %d %s", r.status, r.body)
		}
		return nil
	})
}
