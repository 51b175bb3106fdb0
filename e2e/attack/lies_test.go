package attack

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/vitrine-mcp/vitrine/internal/issuertest"
)

// liesOfIssuers are what an issuer may answer instead of the truth, by the path that is asked for.
// elsewhere is a server of the attacker.
func liesOfIssuers(i *issuertest.Issuer, elsewhere string) map[string]map[string]http.HandlerFunc {
	write := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) } // the server may hang up
	}
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusFound)
	}
	metadata := func(f http.HandlerFunc) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{issuertest.MetadataPath: f}
	}
	keys := func(f http.HandlerFunc) map[string]http.HandlerFunc {
		return map[string]http.HandlerFunc{issuertest.KeysPath: f}
	}
	return map[string]map[string]http.HandlerFunc{
		"another issuer":      metadata(write(fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, elsewhere, i.URL+issuertest.KeysPath))),
		"an issuer with /":    metadata(write(fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, i.URL+"/", i.URL+issuertest.KeysPath))),
		"no issuer":           metadata(write(fmt.Sprintf(`{"jwks_uri":%q}`, i.URL+issuertest.KeysPath))),
		"keys in a file":      metadata(write(fmt.Sprintf(`{"issuer":%q,"jwks_uri":"file:///etc/passwd"}`, i.URL))),
		"metadata elsewhere":  metadata(redirect),
		"huge metadata":       metadata(write(`{"issuer":"` + strings.Repeat("x", 8<<20) + `"}`)),
		"keys elsewhere":      keys(redirect),
		"huge keys":           keys(write(`{"keys":[` + strings.Repeat(" ", 8<<20) + `]}`)),
		"many keys":           keys(write(`{"keys":[` + strings.Repeat("{},", 10_000) + `{}]}`)),
		"keys that are deep":  keys(write(`{"keys":` + strings.Repeat("[", 100_000))),
		"keys that are a lie": keys(write(`{"keys":"yours"}`)),
		"a failure":           keys(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }),
	}
}

// An issuer that lies is not believed: its tokens are neither accepted nor called wrong, and nothing is
// asked of the server that it names. When it tells the truth its tokens are accepted, and the keys from
// then serve on when it lies again.
func TestLiesOfIssuersAreNotBelieved(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	t.Cleanup(elsewhere.Close)
	issuers, urls := map[string]*issuertest.Issuer{}, []string{}
	for name := range liesOfIssuers(&issuertest.Issuer{}, "") {
		i := issuertest.New(t)
		lies := liesOfIssuers(i, elsewhere.URL)[name]
		lie := func(w http.ResponseWriter, r *http.Request) {
			if f := lies[r.URL.Path]; f != nil {
				f(w, r)
				return
			}
			i.Serve(w, r)
		}
		i.Answer(lie)
		issuers[name], urls = i, append(urls, i.URL)
	}
	honest := newIssuer(t)
	s := honest.protected(t, "--oauth-issuer", strings.Join(append(urls, honest.URL), ","))
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	for name, i := range issuers {
		r := c.sendToken(t, "Bearer "+i.Token(nil))
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "issuer_unavailable") {
			t.Errorf("%s: %d %v %s", name, r.status, r.header, r.body)
		}
		if strings.Contains(r.body, elsewhere.URL) || strings.Contains(r.body, i.URL) {
			t.Errorf("%s: the caller learns about the issuer: %s", name, r.body)
		}
	}
	unavailable := len(issuers)
	for name, i := range issuers {
		lie, want := i.Answer(nil), http.StatusUnauthorized // the metadata is known now
		if liesOfIssuers(i, "")[name][issuertest.KeysPath] != nil {
			want = http.StatusServiceUnavailable
			unavailable++
		}
		if r := c.sendToken(t, "Bearer "+i.Token(nil)); r.text() != "x" {
			t.Errorf("%s, and then the truth: %d %s", name, r.status, r.body)
		}
		i.Answer(lie)
		unknown := issuertest.Signed(jwt.SigningMethodES256, i.Key, object{"kid": "unknown"}, i.Claims(nil))
		if r := c.sendToken(t, "Bearer "+unknown); r.status != want {
			t.Errorf("%s, and a key that is not known: %d %s", name, r.status, r.body)
		}
		if r := c.sendToken(t, "Bearer "+i.Token(nil)); r.text() != "x" {
			t.Errorf("%s, and a token with the key from before: %d %s", name, r.status, r.body)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server that the issuers name was asked %d times", n)
	}
	if n := s.metrics(t).sum("vitrine_refusals_total", "reason", "issuer_unavailable"); n != float64(unavailable) {
		t.Errorf("%v refusals, want %d", n, unavailable)
	}
	undisturbed()
}

// While an issuer does not answer, tokens with known keys do not wait. Those with unknown keys get their
// answer with it, or are told to come again if it never comes. They share one request to the issuer.
func TestIssuersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	s := i.protected(t)
	undisturbed := s.others(t)
	known := s.caller(t, bystanders, "olga")
	if r := known.modern(t, 1, echo("x")); r.text() != "x" {
		t.Fatalf("before: %d %s", r.status, r.body)
	}
	const waiting = 20
	hold := func() (arrived chan *http.Request, answer func()) {
		arrived, held := make(chan *http.Request, 10), make(chan struct{})
		i.Answer(func(w http.ResponseWriter, r *http.Request) {
			arrived <- r
			select {
			case <-held:
				i.Serve(w, r)
			case <-r.Context().Done():
			}
		})
		return arrived, func() { close(held) }
	}
	key := i.Rotate("new")
	fresh := func(n int, id string) string {
		return "Bearer " + issuertest.Signed(jwt.SigningMethodES256, key, object{"kid": id}, i.Claims(object{"sub": fmt.Sprint("n", n)}))
	}
	answers := make(chan response, waiting)
	ask := func(id string) {
		for n := range waiting {
			c, what := s.caller(t, attacker, ""), echo("x")
			header := what.header()
			header.Set("Authorization", fresh(n, id))
			go func() {
				r, err := c.send(t.Context(), http.MethodPost, header, what.frame(1, true))
				if err != nil {
					t.Errorf("a token of the key %s: %v", id, err)
				}
				answers <- r
			}()
		}
	}

	arrived, answer := hold()
	ask("new")
	<-arrived
	for n := range 2 { // the issuer answers only afterwards
		if r := s.caller(t, attacker, "").sendToken(t, "Bearer "+i.Token(object{"sub": fmt.Sprint("k", n)})); r.text() != "x" {
			t.Errorf("a new token of a known key while the issuer is asked: %d %s", r.status, r.body)
		}
	}
	answer()
	for range waiting {
		if r := <-answers; r.text() != "x" {
			t.Errorf("a token whose key the issuer has sent late: %d %s", r.status, r.body)
		}
	}

	arrived, answer = hold()
	defer answer()
	ask("newer")
	first := <-arrived
	for range waiting {
		if r := <-answers; r.status != http.StatusServiceUnavailable && r.status != http.StatusUnauthorized {
			t.Errorf("a token whose key never comes: %d %s", r.status, r.body)
		}
	}
	<-first.Context().Done() // the server has given up
	if r := known.modern(t, 2, echo("x")); r.text() != "x" {
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
	if n := i.Asked(issuertest.KeysPath) + i.Asked(issuertest.MetadataPath); n > 8 {
		t.Errorf("the issuer was asked %d times, want no more than 8", n)
	}
	undisturbed()
}
