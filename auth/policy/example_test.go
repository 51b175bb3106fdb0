package policy_test

import (
	"context"
	"fmt"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
)

func ExamplePolicy() {
	rules := `
default: deny
rules:
  - name: large-payments
    effect: deny
    names: [pay]
    when: arguments.amount > 1000 && !("payments:large" in principal.scopes)
    reason: payments of more than 1000 need the scope payments:large
  - name: staff
    effect: allow
    when: principal.tenant == "bank"
`
	p, err := policy.Parse([]byte(rules), policy.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ann := &auth.Principal{Subject: "ann", Tenant: "bank"}
	for _, op := range []*auth.Operation{
		{Method: "tools/call", Kind: auth.KindTool, Name: "pay", Listed: true},
		{Method: "tools/call", Kind: auth.KindTool, Name: "pay", Arguments: []byte(`{"amount": 20}`)},
		{Method: "tools/call", Kind: auth.KindTool, Name: "pay", Arguments: []byte(`{"amount": 2000}`)},
		{Method: "tools/call", Kind: auth.KindTool, Name: "pay", Arguments: []byte(`{"amount": "all"}`)},
	} {
		d := p.Decide(context.Background(), ann, op)
		fmt.Println(d.Effect, d.Rule, d.Err)
	}

	// Output:
	// allow staff <nil>
	// allow staff <nil>
	// deny large-payments <nil>
	// deny large-payments rule large-payments, character 18 of the expression: a value has another type (no such overload)
}
