package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

const callerRules = `
default: deny
rules:
  - name: by-name
    effect: deny
    when: operation.name == "pay" && principal.tenant == "bank"
  - name: by-client
    effect: deny
    when: caller.client_name == "bot"
  - name: staff
    effect: allow
    when: principal.tenant == "bank" || "staff" in principal.scopes
`

// What an expression says of the caller is evaluated once for a list. Another caller, and the item, are never taken for
// those of the decision before.
func TestResultsOfOneCallerAreNotThoseOfAnother(t *testing.T) {
	p, other := parse(t, callerRules), parse(t, "default: allow\nrules: []\n")
	bank := &auth.Principal{Subject: "ann", Tenant: "bank"}
	staff := &auth.Principal{Subject: "bob", Scopes: []string{"staff"}}
	nobody := &auth.Principal{Subject: "eve"}
	of := func(client, name string) *auth.Operation {
		op := listed(name)
		op.ClientName = client
		return op
	}
	for range 3 {
		for _, c := range []struct {
			who          *auth.Principal
			client, name string
			want         auth.Effect
		}{
			{bank, "desk", "read", auth.Allow}, {bank, "desk", "pay", auth.Deny}, {bank, "bot", "read", auth.Deny},
			{staff, "desk", "pay", auth.Allow}, {nobody, "desk", "read", auth.Deny}, {nil, "desk", "read", auth.Deny},
			{staff, "bot", "read", auth.Deny}, {staff, "desk", "read", auth.Allow},
		} {
			require.Equal(t, c.want, p.Decide(t.Context(), c.who, of(c.client, c.name)).Effect, "%+v", c)
			require.Equal(t, auth.Allow, other.Decide(t.Context(), c.who, of(c.client, c.name)).Effect)
		}
	}
}
