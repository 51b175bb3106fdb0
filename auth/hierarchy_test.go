package auth_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

var files = auth.Hierarchy{
	"files:admin": {"files:write", "files:share"},
	"files:write": {"files:read"},
	"all":         {"files:admin", "mail"},
}

func TestScopesIncludeOthers(t *testing.T) {
	for _, c := range []struct{ granted, needed, missing []string }{
		{nil, nil, nil},
		{[]string{"files:read"}, nil, nil},
		{nil, []string{"files:read"}, []string{"files:read"}},
		{[]string{"files:read"}, []string{"files:read"}, nil},
		{[]string{"files:write"}, []string{"files:read"}, nil},
		{[]string{"files:read"}, []string{"files:write"}, []string{"files:write"}},
		{[]string{"all"}, []string{"files:read", "mail", "files:share", "all"}, nil},
		{[]string{"mail", "files:share"}, []string{"files:write", "mail", "files:read"}, []string{"files:write", "files:read"}},
		{[]string{"other"}, []string{"unknown"}, []string{"unknown"}},
	} {
		require.Equal(t, c.missing, files.Missing(c.granted, c.needed), "%q needs %q", c.granted, c.needed)
	}
	require.Equal(t, []string{"b"}, auth.Hierarchy(nil).Missing([]string{"a"}, []string{"b", "a"}))
}

func TestScopesThatIncludeEachOtherEnd(t *testing.T) {
	circle := auth.Hierarchy{}
	for i := range 40 {
		circle[fmt.Sprint(i)] = []string{fmt.Sprint((i + 1) % 40), fmt.Sprint((i + 7) % 40)}
	}
	require.Nil(t, circle.Missing([]string{"3"}, []string{"2", "39", "0"}))
	require.Equal(t, []string{"x"}, circle.Missing([]string{"3"}, []string{"x"}))
}

func TestMistakesInAHierarchyAreErrors(t *testing.T) {
	require.NoError(t, files.Check())
	require.NoError(t, auth.Hierarchy(nil).Check())
	for text, h := range map[string]auth.Hierarchy{
		`"a" includes itself`: {"a": {"a"}},
		`"b" includes itself`: {"b": {"c"}, "c": {"d"}, "d": {"b"}},
		`"x y", which is no`:  {"a": {"x y"}},
		`"", which is no`:     {"": {"a"}},
		`"ü", which is no`:    {"a": {"ü"}},
	} {
		require.ErrorContains(t, h.Check(), text)
	}
}

func TestScopesOfAnOperationAreDemanded(t *testing.T) {
	policy := auth.Scopes(files)
	write := &auth.Operation{Method: "tools/call", Kind: auth.KindTool, Name: "save", Scopes: []string{"files:write", "files:read"}}
	for _, c := range []struct {
		principal *auth.Principal
		op        *auth.Operation
		want      auth.Decision
	}{
		{nil, &auth.Operation{}, auth.Decision{Effect: auth.Allow}},
		{nil, write, auth.Decision{Effect: auth.NeedScopes, Scopes: write.Scopes, Rule: "scopes"}},
		{&auth.Principal{Scopes: []string{"files:read"}}, write, auth.Decision{Effect: auth.NeedScopes, Scopes: write.Scopes, Rule: "scopes"}},
		{&auth.Principal{Scopes: []string{"files:admin"}}, write, auth.Decision{Effect: auth.Allow, Rule: "scopes"}},
	} {
		require.Equal(t, c.want, policy.Decide(t.Context(), c.principal, c.op))
	}
}
