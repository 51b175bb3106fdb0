package policy_test

import (
	"testing"

	"github.com/vitrine-mcp/vitrine/auth"
)

const twoRules = `
default: deny
rules:
  - name: large-payments
    effect: deny
    names: [pay]
    when: arguments.amount > 1000 && !("cfo" in principal.scopes)
  - name: staff
    effect: allow
    when: principal.tenant == "bank"
`

// BenchmarkDecide measures one decision of two rules whose expressions are both evaluated.
func BenchmarkDecide(b *testing.B) {
	p := parse(b, twoRules)
	ann := &auth.Principal{Issuer: "https://id.example", Subject: "ann", Tenant: "bank", Scopes: []string{"read", "write"}}
	for name, op := range map[string]*auth.Operation{
		"call":  call("pay", `{"amount": 900, "to": "DE02120300000000202051", "text": "invoice 1234"}`),
		"large": call("pay", `{"amount": 1900, "to": "DE02120300000000202051", "text": "invoice 1234"}`),
		"list":  listed("pay"),
		"other": call("read", `{"id": 1}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(b.Context(), ann, op)
			}
		})
	}
}
