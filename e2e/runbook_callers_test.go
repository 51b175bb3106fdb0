package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The situations about who calls, and what they may do.

// bearing sends a request with a token.
func (d *drill) bearing(t *testing.T, token string, r request) answer {
	t.Helper()
	h := r.headers()
	h.Set("Authorization", "Bearer "+token)
	return d.send(t, http.MethodPost, h, r.frame())
}

// mustBear sends a request with a token, and expects a status.
func (d *drill) mustBear(t *testing.T, token string, r request, want int) {
	t.Helper()
	if a := d.bearing(t, token, r); a.status != want {
		t.Errorf("%s: %d %s, want %d", r.frame(), a.status, a.body, want)
	}
}

// wrongAudience is what happens after a move to another URL: the tokens are for the old one.
func wrongAudience(t *testing.T, d *drill, n int) {
	token := d.issuer.Token(object{"aud": "https://old.example.com/mcp"})
	for i := range n {
		d.mustBear(t, token, call(i, "echo", object{"text": "x"}), http.StatusUnauthorized)
	}
}

func lackScope(t *testing.T, d *drill, n int) {
	token := d.issuer.Token(nil)
	for i := range n {
		d.mustBear(t, token, from("picky", call(i, "scoped", object{})), http.StatusForbidden)
		d.mustBear(t, token, from("picky", call(i, "echo", object{"text": "x"})), http.StatusOK)
	}
}

func stopIssuer(_ *testing.T, d *drill) { d.issuer.Stop() }

func askStoppedIssuer(t *testing.T, d *drill, n int) {
	for i := range n {
		token := d.issuer.Token(object{"jti": fmt.Sprint(n, i)})
		d.mustBear(t, token, call(i, "echo", object{"text": "x"}), http.StatusServiceUnavailable)
	}
}

// leaveRecords calls, and waits until the calls are in the record.
func leaveRecords(t *testing.T, d *drill, n int) {
	token := d.issuer.Token(nil)
	count := func() int {
		text, err := os.ReadFile(filepath.Join(d.dir, "audit.jsonl"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), `"target":"echo"`)
	}
	before := count()
	for i := range n {
		d.mustBear(t, token, call(i, "echo", object{"text": "x"}), http.StatusOK)
	}
	d.mustBear(t, token, call(n, "scoped", object{}), http.StatusForbidden)
	eventually(t, func() error {
		if got := count() - before; got != n {
			return fmt.Errorf("%d records, want %d", got, n)
		}
		return nil
	})
}
