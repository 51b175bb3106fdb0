package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
)

// The error of a file with a mistake says on which line it is and what was expected.
func TestMistakesInAFileAreErrors(t *testing.T) {
	rule := func(members string) string {
		return "default: deny\nrules:\n  - {name: first, effect: allow}\n  - {name: a, effect: allow, " + members + "}\n"
	}
	for _, c := range []struct{ text, err string }{
		{"", "the file is empty"},
		{"rules: []", `default is "": it must be "deny" or "allow"`},
		{"default: maybe", `default is "maybe"`},
		{"default: deny\ndefualt: allow", "line 2: field defualt not found"},
		{"default: deny\ndefault: allow", "already defined"},
		{"default: deny\n---\ndefault: allow", "second document"},
		{"default: [", "line 1"},
		{"default: deny\nrules: {}", "cannot unmarshal"},
		{"default: deny\nrules: [null]", "rule 1 is empty"},
		{"default: deny\nrules:\n  - {effect: allow}", `line 3: the rule has the name ""`},
		{"default: deny\nrules:\n  - {name: 1a, effect: allow}", `line 3: the rule has the name "1a"`},
		{"default: deny\nrules:\n  - {name: default, effect: allow}", "line 3: a rule cannot have the name default"},
		{"default: deny\nrules:\n  - {name: scopes, effect: allow}", "line 3: a rule cannot have the name scopes"},
		{"default: deny\nrules:\n  - {name: a}", `line 3: rule a: effect is ""`},
		{rule("names: [x], name: b"), "already defined"},
		{strings.Replace(rule(""), "name: a", "name: first", 1), "line 4: there is a rule first on line 3 already"},
		{rule("kinds: [tools]"), `line 4: rule a: there is no kind "tools"`},
		{rule(`names: ["*_read"]`), `line 4: rule a: "*_read" is no name: * can only be the last character`},
		{rule(`methods: [""]`), `line 4: rule a: "" is no name`},
		{rule("wehn: true"), "line 4: field wehn not found"},
		{rule(`when: "principal.tenat == 1"`), "line 4: rule a, character 1 of the expression: there is no variable principal.tenat, there are principal.issuer, principal.subject, "},
		{rule(`when: "operation.listed"`), "there is no variable operation.listed, there are operation.method"},
		{rule(`when: "argumnets.a == 1"`), "undeclared reference to 'argumnets'"},
		{rule(`when: "principal.tenant = 1"`), "line 4: rule a, character 18 of the expression: Syntax error"},
		{rule(`when: "principal.tenant == 1"`), "line 4: rule a, character 18 of the expression: found no matching overload"},
		{rule(`when: "principal.tenant"`), "line 4: rule a: the expression has the type string, and not bool"},
		{rule(`when: "arguments.force"`), `line 4: rule a: the expression has the type dyn, and not bool: compare what may have any type`},
		{rule(`when: "principal.tenant.matches('[')"`), "line 4: rule a, character 26 of the expression: invalid matches argument"},
		{rule(`when: "[1,2].all(a, [1,2].all(b, arguments.x.all(c, arguments.x.all(d, arguments.x.all(e, true)))))"`), "max_policy_cost_estimate"},
		{"default: deny\nrules:\n  - name: a\n    effect: allow\n    when: |\n      true &&\n      principal.tenat == ''", "line 7: rule a, character 1 of the expression: there is no variable principal.tenat"},
		{"default: deny\n#" + strings.Repeat("x", 1<<20), "more than the 1048576 bytes that are allowed (max_policy_file_bytes)"},
	} {
		_, err := policy.Parse([]byte(c.text), policy.Config{})
		require.ErrorContains(t, err, c.err, "%.200s", c.text)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestTooManyRulesAreAnError(t *testing.T) {
	var text strings.Builder
	text.WriteString("default: deny\nrules:\n")
	for i := range 1001 {
		fmt.Fprintf(&text, "  - {name: r%d, effect: allow}\n", i)
	}
	_, err := policy.Parse([]byte(text.String()), policy.Config{})
	require.ErrorContains(t, err, "1001 rules, 1000 are allowed (max_policy_rules)")
	_, err = policy.Parse([]byte(text.String()), policy.Config{MaxRules: 1001})
	require.NoError(t, err)
}

func TestFileThatCannotBeReadIsAnError(t *testing.T) {
	dir := t.TempDir()
	_, err := policy.Open(filepath.Join(dir, "none.yaml"), policy.Config{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = policy.Open(dir, policy.Config{})
	require.ErrorContains(t, err, "no regular file")
	path := filepath.Join(dir, "policy.yaml")
	require.NoError(t, os.WriteFile(path, []byte("default: maybe"), 0o600))
	_, err = policy.Open(path, policy.Config{})
	require.ErrorContains(t, err, `policy policy.yaml: default is "maybe"`)
	_, err = policy.Parse([]byte("default: deny"), policy.Config{Hierarchy: auth.Hierarchy{"a": {"a"}}})
	require.ErrorContains(t, err, "includes itself")
}

// A new content of the file that is beyond a limit is not used, and the limit is told.
func TestLimitsOfANewFile(t *testing.T) {
	for limit, text := range map[string]string{
		policy.LimitFileBytes:    "default: deny\n#" + strings.Repeat("x", 300),
		policy.LimitRules:        "default: deny\nrules: [{name: a, effect: allow}, {name: b, effect: allow}]",
		policy.LimitCost:         `{default: deny, rules: [{name: a, effect: allow, when: "[1,2,3,4,5,6,7,8,9].all(x, x > 0)"}]}`,
		policy.LimitCostEstimate: `{default: deny, rules: [{name: a, effect: allow, when: "arguments.a.all(x, arguments.a.all(y, x == y))"}]}`,
	} {
		path := filepath.Join(t.TempDir(), "policy.yaml")
		require.NoError(t, os.WriteFile(path, []byte("default: allow"), 0o600))
		var reached []string
		p, err := policy.Open(path, policy.Config{MaxFileBytes: 256, MaxRules: 1, MaxCost: 10, MaxCostEstimate: 1000, OnLimit: func(limit string) { reached = append(reached, limit) }})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		for range 2 { // it is told once
			require.ErrorContains(t, p.Reload(), "("+limit+")")
		}
		require.Equal(t, []string{limit}, reached)
		require.Equal(t, auth.Allow, p.Decide(t.Context(), nil, call("pay", "")).Effect, "the rules from before stay")
	}
}

// An expression that takes too long is stopped, and denies.
func TestCostOfAnEvaluationIsBounded(t *testing.T) {
	var reached []string
	p, err := policy.Parse([]byte(`
default: allow
rules:
  - {name: pairs, effect: deny, when: "arguments.a.exists(x, arguments.a.exists(y, x + y == 1))"}
`), policy.Config{MaxCost: 10_000, OnLimit: func(limit string) { reached = append(reached, limit) }})
	require.NoError(t, err)
	list := func(n int) string { return `{"a": [` + strings.TrimSuffix(strings.Repeat("7,", n), ",") + `]}` }
	require.Equal(t, auth.Allow, p.Decide(t.Context(), nil, call("pay", list(10))).Effect)
	d := p.Decide(t.Context(), nil, call("pay", list(300)))
	require.Equal(t, auth.Deny, d.Effect)
	require.ErrorContains(t, d.Err, "max_policy_cost")
	require.Equal(t, policy.RuleStats{Name: "pairs", Line: 4, Decided: 1, Failed: 1}, p.Stats().Rules[0])
	require.Equal(t, []string{policy.LimitCost}, reached)
	_, err = policy.Parse([]byte(`
default: allow
rules:
  - {name: long, effect: deny, when: "[1,2,3,4,5,6,7,8,9].all(x, x > 0)"}
`), policy.Config{MaxCost: 10})
	require.ErrorContains(t, err, "line 4: rule long: the expression takes")
}

// Arguments with too many values are not decoded. What no rule reads does not count.
func TestDecodedArgumentsAreBounded(t *testing.T) {
	var reached []string
	p, err := policy.Parse([]byte(`
default: allow
rules:
  - {name: amount, effect: deny, when: arguments.a == 1}
`), policy.Config{MaxValues: 100, OnLimit: func(limit string) { reached = append(reached, limit) }})
	require.NoError(t, err)
	many := "[" + strings.Repeat("0,", 100) + "0]"
	require.Equal(t, auth.Allow, p.Decide(t.Context(), nil, call("pay", `{"a": 2, "b": `+many+`, "c": 1e400}`)).Effect)
	d := p.Decide(t.Context(), nil, call("pay", `{"a": `+many+`}`))
	require.Equal(t, auth.Deny, d.Effect)
	require.ErrorContains(t, d.Err, "max_policy_values")
	require.Equal(t, []string{policy.LimitValues}, reached)
	d = p.Decide(t.Context(), nil, call("pay", `{"a": `+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`}`))
	require.ErrorContains(t, d.Err, "too many values")
	wide, err := policy.Parse([]byte("default: allow\nrules: [{name: a, effect: deny, when: arguments.a == 1}]"), policy.Config{})
	require.NoError(t, err)
	d = wide.Decide(t.Context(), nil, call("pay", `{"a": `+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`}`))
	require.ErrorContains(t, d.Err, "nested more than 128 deep (max_policy_depth)")
	reached = nil
	deep, err := policy.Parse([]byte("default: allow\nrules: [{name: a, effect: deny, when: arguments.a == 1}]"),
		policy.Config{MaxDepth: 3, OnLimit: func(limit string) { reached = append(reached, limit) }})
	require.NoError(t, err)
	require.NoError(t, deep.Decide(t.Context(), nil, call("pay", `{"a": [[1]]}`)).Err)
	require.ErrorContains(t, deep.Decide(t.Context(), nil, call("pay", `{"a": [[[1]]]}`)).Err, "nested more than 3 deep")
	require.Equal(t, []string{policy.LimitDepth}, reached)
	// A name with an escape is the same name.
	require.Equal(t, auth.Deny, wide.Decide(t.Context(), nil, call("pay", `{"\u0061": 1}`)).Effect)
}
