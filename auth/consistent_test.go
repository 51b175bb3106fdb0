package auth_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

// hiding is a policy that hides items and serves them.
type hiding struct {
	listed auth.Decision
	agrees bool
	asked  *int
}

func (h hiding) Decide(_ context.Context, _ *auth.Principal, op *auth.Operation) auth.Decision {
	*h.asked++
	if op.Listed && op.Arguments == nil && (op.Kind != auth.KindTemplate || op.URI == "") {
		return h.listed
	}
	return auth.Decision{Effect: auth.Allow, Rule: "use"}
}

func (h hiding) ListsAgree() bool { return h.agrees }

func TestHiddenItemIsDenied(t *testing.T) {
	deny := auth.Decision{Rule: "hidden"}
	tool := auth.Operation{Kind: auth.KindTool, Arguments: []byte("{}")}
	for name, c := range map[string]struct {
		listed auth.Decision
		op     auth.Operation
		agrees bool
		want   string
		asked  int
	}{
		"a call of a hidden tool":            {deny, tool, false, "hidden", 1},
		"a read through a hidden template":   {deny, auth.Operation{Kind: auth.KindTemplate, URI: "x:1"}, false, "hidden", 1},
		"a method without an item":           {deny, auth.Operation{Method: "acme/do"}, false, "use", 1},
		"a call of a listed tool":            {auth.Decision{Effect: auth.Allow}, tool, false, "use", 2},
		"what needs scopes is listed":        {auth.Decision{Effect: auth.NeedScopes}, tool, false, "use", 2},
		"a dry run hides nothing":            {auth.Decision{DryRun: true}, tool, false, "use", 2},
		"the list itself":                    {deny, auth.Operation{Kind: auth.KindTool, Listed: true}, false, "hidden", 1},
		"a policy that agrees is asked once": {deny, tool, true, "use", 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			got := auth.Consistent(hiding{c.listed, c.agrees, &asked}).Decide(t.Context(), nil, &c.op)
			require.Equal(t, c.want, got.Rule)
			require.Equal(t, c.asked, asked)
		})
	}
}
