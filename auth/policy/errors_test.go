package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
)

// maxErrorBytes bounds the text of an error of an evaluation.
const maxErrorBytes = 200

// whenRule returns a policy with one rule that allows, whose name is as long as a name may be.
func whenRule(t *testing.T, when string) (*policy.Policy, error) {
	t.Helper()
	text, err := json.Marshal(when)
	require.NoError(t, err)
	return policy.Parse([]byte("default: deny\nrules: [{name: "+longName+", effect: allow, when: "+string(text)+"}]"), policy.Config{MaxValues: 50, MaxDepth: 5})
}

var longName = strings.Repeat("r", 64)

// errorsOf returns all errors of a decision and its explanation, with those that they wrap.
func errorsOf(t *testing.T, p *policy.Policy, principal *auth.Principal, op *auth.Operation) (all []error) {
	t.Helper()
	explanation := p.Explain(principal, op)
	found := []error{p.Decide(t.Context(), principal, op).Err, explanation.Decision.Err}
	for _, step := range explanation.Steps {
		found = append(found, step.Err)
	}
	for _, err := range found {
		for ; err != nil; err = errors.Unwrap(err) {
			all = append(all, err)
		}
	}
	return all
}

// Errors say which expression of which rule has failed, and how. They have no value of an argument, however long.
func TestErrorSaysWhatFailed(t *testing.T) {
	const secret = "hunter(2-secret"
	long := strings.Repeat(secret, 1<<16)
	for when, want := range map[string]string{
		"arguments.nothing == 1":                                           "no such key",
		"arguments.object[arguments.text] == 1":                            "no such key",
		"arguments.text > 1":                                               "a value has another type (no such overload)",
		"size(arguments.number) > 1":                                       "a value has another type (no such overload)",
		"arguments.list['a'] == 1":                                         "a value has another type",
		"arguments.text.exists(x, x == 1)":                                 "a value has another type",
		"arguments.list[arguments.number] == 1":                            "no such index",
		"int(arguments.text) > 1":                                          "a value that cannot be converted",
		"duration(arguments.text) > duration('1s')":                        "a value that cannot be converted",
		"timestamp(arguments.text) < timestamp('2020-01-01T00:00:00Z')":    "a text that is no timestamp",
		"timestamp('2020-01-01T00:00:00Z').getHours(arguments.text) == 1":  "another error of the evaluation",
		"timestamp('2020-01-01T00:00:00Z').getHours(arguments.zone) == 1":  "no such time zone",
		"timestamp('2020-01-01T00:00:00Z').getHours(arguments.colon) == 1": "another error of the evaluation",
		"'a'.matches(arguments.text)":                                      "a text that is no regular expression",
		"'a'.matches(arguments.pattern)":                                   "a regular expression that is too large",
		"1 / arguments.zero == 1":                                          "a division by zero",
		"1 % arguments.zero == 1":                                          "a division by zero",
		"arguments.large + arguments.large > 0":                            "a number or a time that is too large",
		"arguments.huge > 1":                                               "a number that is no integer of 64 bits, and too large for an exact fraction",
		"arguments.huge_fraction > 1":                                      "a number that is no integer of 64 bits, and too large for an exact fraction",
		"principal.claims.rounded > 1":                                     "a number may have been rounded",
		"principal.claims.huge > 1":                                        "a number that is no integer of 64 bits",
		"principal.claims.channel == 1":                                    "another error of the evaluation",
		"arguments.many == 1":                                              "too many values (max_policy_values)",
		"arguments.deep == 1":                                              "are nested more than 5 deep (max_policy_depth)",
		"arguments.twice == 1":                                             "have a member twice",
		"[1].all(a, [1].all(b, " + `"` + strings.Repeat("a", 5000) + `"` + ".matches(arguments.a + 'x*y*z*')))": "no such key",
	} {
		p, err := whenRule(t, when)
		require.NoError(t, err, when)
		twice := ""
		if strings.Contains(when, "twice") {
			twice = `, "twice": {"hunter2": 1, "hunter2": 2}`
		}
		op := call("pay", fmt.Sprintf(`{"text": %q, "object": {}, "list": [], "number": 31337, "zone": "Hunter2/Secret", "colon": "hunter2:secret", "pattern": %q,
			"zero": 0, "large": 9223372036854775807, "huge": 31337000000000000000000, "huge_fraction": 3.1337e300,
			"many": [%s1], "deep": {"hunter2": {"hunter2": {"hunter2": {"hunter2": {"hunter2": 1}}}}}%s}`,
			long, strings.Repeat("hunter2", 200), strings.Repeat("31337, ", 100), twice))
		principal := &auth.Principal{Subject: "ann", Claims: map[string]any{"rounded": 3.1337e300, "huge": json.Number("31337000000000000000000"), "channel": struct{ S string }{"hunter2"}}}
		all := errorsOf(t, p, principal, op)
		require.NotEmpty(t, all, when)
		require.Contains(t, all[0].Error(), want, when)
		require.Contains(t, all[0].Error(), "rule "+longName, when)
		for _, err := range all {
			require.LessOrEqual(t, len(err.Error()), maxErrorBytes, when)
			require.NotRegexp(t, `(?i)hunter|31337|3\.1337`, err.Error(), when)
		}
	}
}

// An error says where in the expression it is.
func TestErrorSaysWhere(t *testing.T) {
	p := parse(t, `
default: deny
rules:
  - {name: first, effect: deny, names: [pay], when: 1 < 2 && arguments.amount > 10}
  - name: second
    effect: allow
    when: |
      operation.name == "ask" &&
        arguments.purpose == "test"
`)
	require.EqualError(t, p.Decide(t.Context(), nil, call("pay", `{}`)).Err, "rule first, character 19 of the expression: no such key")
	require.EqualError(t, p.Decide(t.Context(), nil, call("ask", `{}`)).Err, "rule second, line 2, character 12 of the expression: no such key")
	require.EqualError(t, p.Decide(t.Context(), nil, call("ask", `[]`)).Err, "rule second: the arguments are no JSON object")
	require.EqualError(t, p.Decide(t.Context(), nil, call("ask", `{`)).Err, "rule second: the arguments are no valid JSON")
}

// No combination of functions and operators with arguments makes an error that has a value of them.
func TestNoErrorHasAValue(t *testing.T) {
	const secret = "hunter2"
	values := []string{
		`"hunter2"`, `"hunter2("`, `["hunter2"]`, `{"hunter2": "hunter2"}`, `{"hunter2": 1, "hunter2": 2}`, `"2020-01-01Thunter2"`, `"hunter2/x"`, `"1hunter2:30"`,
		`"+99:hunter2"`, `"hunter2{1000}{1000}"`, `"[[:hunter2:]]"`, `"(?hunter2)"`, `"\\hunter2"`, `"` + strings.Repeat("hunter2", 1000) + `"`, `{"a": hunter2}`, `"hunter2`,
	}
	templates := []string{
		"A > B", "A == B", "A + B == A", "A - B == A", "A * B == A", "A / B == A", "A % B == A", "-A == B", "!A", "A && B", "A || B", "A ? true : B == A", "A in B", "A[B] == A",
		"arguments[A] == B", "{'x': 1}[A] == B", "[1][A] == B", "{A: 1, A: 2}[B] == 1", "size(A) > B", "int(A) > B", "uint(A) > B", "double(A) > B", "bool(A) && B", "string(A) == B",
		"bytes(A) == B", "dyn(A) == B", "type(A) == B", "timestamp(A) < B", "duration(A) < B", "A.matches(B)", "matches(A, B)", "'x'.matches(A)", "A.startsWith(B)",
		"A.endsWith(B)", "A.contains(B)", "A.size() == B", "A.getHours() == B", "A.x == B", "has(A.x) && B", "A.exists(x, x > B)", "A.all(x, x[B] == 1)", "A.map(x, int(x)) == B",
		"A.filter(x, timestamp(x) < B) == A", "A.exists_one(x, x.matches(B))", "timestamp('2020-01-01T00:00:00Z').getHours(A) == B",
		"timestamp('2020-01-01T00:00:00Z').getFullYear(A) == B", "timestamp('2020-01-01T00:00:00Z') + duration(A) == B", "principal.actors[A] == B", "principal.claims[A] == B",
	}
	failed := 0
	for _, template := range templates {
		when := strings.NewReplacer("A", "arguments.a", "B", "arguments.b").Replace(template)
		if !strings.ContainsAny(template, "=<>!&|?") && !strings.Contains(template, "matches") && !strings.Contains(template, "With") && !strings.Contains(template, "contains") {
			when = "dyn(" + when + ") == true"
		}
		p, err := whenRule(t, when)
		if err != nil { // the compiler knows that the types are wrong
			continue
		}
		for _, a := range values {
			for _, b := range append(values, "1", "true", "null") {
				for _, err := range errorsOf(t, p, nil, call("pay", `{"a": `+a+`, "b": `+b+`}`)) {
					failed++
					if strings.Contains(strings.ToLower(err.Error()), secret) || len(err.Error()) > maxErrorBytes {
						t.Fatalf("%s with %s and %s: %.300s", when, a, b, err)
					}
				}
			}
		}
	}
	require.Greater(t, failed, 10_000)
}
