package e2e

import (
	"slices"
	"strings"
	"testing"
)

// The Go SDK's client registers itself again for each authorization. The authorization server meets a new
// client, to which ann gives no more than the first time: a wider token needs a client that is known, as
// with a metadata document.
func TestGoSDKRegistersForEachAuthorization(t *testing.T) {
	as := startIssuer(t)
	t.Parallel()
	s := protect(t, as)
	d, _ := drive(t, command(t, "gosdk", "2026-07-28", "oauth", s.mcp))
	first := d.whoami(t)
	if first.Issuer != as.issuer || first.Subject != "ann" || !slices.Equal(first.Scopes, []string{"demo:read"}) {
		t.Errorf("after the first authorization: %+v", first)
	}
	if r := d.call(t, "scoped", object{}); r.Error == nil || !strings.Contains(r.Error.Message, "this needs the scopes demo:write") {
		t.Errorf("scoped: %+v %+v", r.Result, r.Error)
	}
	if second := d.whoami(t); second.Client == first.Client || second.Subject != "ann" {
		t.Errorf("after the second authorization: %+v, and before: %+v", second, first)
	}
	if n := len(as.requests(t, "/reg")); n != 2 {
		t.Errorf("%d registrations, want 2", n)
	}
	d.must(t, "end", nil)
}

// mcp-go's client finds the authorization server, and its program gets the token when the client asks for
// it. The client does not ask for the scopes of a challenge: after a 403 the program has to authorize it
// again.
func TestMCPGoIsAuthorizedByItsProgram(t *testing.T) {
	for name, c := range map[string]struct{ mode, document string }{
		"registered client":               {"2026-07-28", ""},
		"client with a metadata document": {"2026-07-28", clientDocument},
		"client of the revision before":   {"2025-11-25", ""},
	} {
		t.Run(name, func(t *testing.T) {
			as := startIssuer(t)
			t.Parallel()
			s := protect(t, as)
			p := command(t, "mcpgo", c.mode, "oauth", s.mcp)
			if c.document != "" {
				p.args = append(p.args, c.document)
			}
			d, _ := drive(t, p)
			who := d.whoami(t)
			if who.Issuer != as.issuer || who.Subject != "ann" || who.Client == "" || !slices.Equal(who.Scopes, []string{"demo:read"}) {
				t.Errorf("after the first authorization: %+v", who)
			}
			if registered, want := len(as.requests(t, "/reg")), int(count1(c.document == "")); registered != want {
				t.Errorf("%d registrations, want %d", registered, want)
			}
			if r := d.call(t, "scoped", object{}); r.Error == nil || r.Error.Message != "this needs the scopes demo:write" {
				t.Errorf("scoped without its scope: %+v %+v", r.Result, r.Error)
			}
			if n := len(as.requests(t, "/auth")); n != 1 {
				t.Errorf("%d authorizations after the 403, want 1: has mcp-go learned to ask for scopes?", n)
			}
			d.must(t, "authorize", nil)
			if r := d.call(t, "scoped", object{}); r.text() != "You may write." {
				t.Errorf("scoped: %+v %+v", r.Result, r.Error)
			}
			checkAuthorizations(t, as, s, who.Client, "demo:admin demo:read demo:write")
			d.must(t, "end", nil)
		})
	}
}
