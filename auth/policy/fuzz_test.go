package policy_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
)

// A file is used or refused with an error, and what is used decides without a panic.
func FuzzFile(f *testing.F) {
	for _, text := range []string{bank, twoRules, open, closed, broken, "default: allow", "rules: &a [*a]", "default: !!binary YQ==\nrules: [{<<: {name: x}}]",
		"default: deny\nrules:\n  - {name: a, effect: allow, when: 'arguments.a.map(x, x + 1).exists(y, y in principal.scopes)'}"} {
		f.Add([]byte(text))
	}
	op := call("pay", `{"amount": 1, "a": [1, 2, {"b": "c"}]}`)
	item := listed("pay")
	ann := &auth.Principal{Subject: "ann", Scopes: []string{"read"}, Claims: map[string]any{"a": []any{1, "x"}}}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := policy.Parse(text, policy.Config{})
		if err != nil {
			return
		}
		p.Check(registered)
		shown := p.Explain(ann, item)
		d := p.Decide(context.Background(), ann, op)
		if !shown.Decision.Passes() && d.Passes() {
			t.Errorf("a hidden item is served: %+v", d)
		}
		if len(p.Stats().Rules) == 0 {
			t.Error("there is no default")
		}
	})
}

// Arguments that are an object of JSON are decided on, or denied with an error.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{`{"a": 1}`, `{"a": 9007199254740993.0}`, `{"a": [1, {"b": null}]}`, `{"a": 1e999}`, `{"a": "\ud800"}`, `{"\u0061": 1}`, `{"a": 1, "a": 2}`, `[]`, ``} {
		f.Add([]byte(text))
	}
	p, err := policy.Parse([]byte(`
default: deny
rules:
  - {name: absent, effect: allow, when: '!has(arguments.a)'}
  - {name: same, effect: allow, when: arguments.a == arguments.a}
`), policy.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d := p.Decide(context.Background(), nil, call("pay", string(text)))
		if d.Effect == auth.Deny && d.Err == nil {
			t.Errorf("%q: a value is not equal to itself", text)
		}
		var members map[string]json.RawMessage
		if d.Effect == auth.Allow && len(text) > 0 && json.Unmarshal(text, &members) != nil {
			t.Errorf("%q is no object and was allowed", text)
		}
	})
}
