package server

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
)

// BenchmarkFilteredList measures what the policies of a list with 1,000 tools take. The first rule is about none of them.
func BenchmarkFilteredList(b *testing.B) {
	rules, err := policy.Parse([]byte(`
default: deny
rules:
  - name: hidden
    effect: deny
    names: ["hidden_*"]
    when: '!("tools:admin" in principal.scopes)'
  - name: staff
    effect: allow
    when: principal.tenant == "staff"
`), policy.Config{})
	require.NoError(b, err)
	s := New("bench", "1", WithPolicy(rules))
	for i := range 1000 {
		AddTool(s, Tool{Name: fmt.Sprintf("tool_%03d", i)}, func(context.Context, *Call, struct{}) (string, error) { return "", nil })
	}
	c := caller{principal: &auth.Principal{Subject: "olga", Tenant: "staff"}, transport: "http", address: "192.0.2.1:1", client: "bench", version: "1"}
	b.ReportAllocs()
	for b.Loop() {
		op := c.fill(new(auth.Operation))
		defs, _, err := s.tools.page("", s.pageSize, func(to *target) bool { return s.shows(b.Context(), &c, to, op) })
		require.NoError(b, err)
		require.NotEmpty(b, defs)
	}
}
