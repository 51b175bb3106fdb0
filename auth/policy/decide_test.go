package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
)

// parse returns the policy of a file.
func parse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(text), policy.Config{})
	require.NoError(t, err)
	return p
}

// call is a call of a tool with arguments, and listed the same tool in a list.
func call(name, arguments string) *auth.Operation {
	return &auth.Operation{Method: "tools/call", Kind: auth.KindTool, Name: name, Arguments: []byte(arguments)}
}

func listed(name string) *auth.Operation {
	return &auth.Operation{Method: "tools/call", Kind: auth.KindTool, Name: name, Listed: true}
}

const bank = `
default: deny
rules:
  - name: large-payments
    effect: deny
    names: [pay]
    when: arguments.amount > 1000 && !("cfo" in principal.scopes)
    reason: large payments are for the CFO
  - name: suspended
    effect: deny
    when: has(principal.claims.suspended) && principal.claims.suspended == true
  - name: staff
    effect: allow
    names: [pay, "read_*"]
    when: principal.tenant == "bank"
  - name: guests
    effect: allow
    names: [read_rates]
`

func TestRulesDecide(t *testing.T) {
	staff := &auth.Principal{Subject: "ann", Tenant: "bank"}
	cfo := &auth.Principal{Subject: "cem", Tenant: "bank", Scopes: []string{"cfo"}}
	suspended := &auth.Principal{Subject: "sam", Tenant: "bank", Claims: map[string]any{"suspended": true}}
	p := parse(t, bank)
	for name, c := range map[string]struct {
		principal *auth.Principal
		op        *auth.Operation
		effect    auth.Effect
		rule      string
	}{
		"an allow matches":                      {staff, call("pay", `{"amount": 1000}`), auth.Allow, "staff"},
		"a deny goes before an allow":           {staff, call("pay", `{"amount": 1001}`), auth.Deny, "large-payments"},
		"its condition does not hold":           {cfo, call("pay", `{"amount": 1001}`), auth.Allow, "staff"},
		"a deny of all items":                   {suspended, call("read_rates", `{}`), auth.Deny, "suspended"},
		"the first allow that matches":          {staff, call("read_rates", `{}`), auth.Allow, "staff"},
		"nobody is a principal without values":  {nil, call("read_rates", `{}`), auth.Allow, "guests"},
		"the default":                           {staff, call("delete", `{}`), auth.Deny, "default"},
		"no principal, no tenant":               {nil, call("pay", `{"amount": 1}`), auth.Deny, "default"},
		"a list does not know arguments":        {staff, listed("pay"), auth.Allow, "staff"},
		"a list knows the principal":            {nil, listed("pay"), auth.Deny, "default"},
		"a list knows that a deny always holds": {suspended, listed("pay"), auth.Deny, "suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			d := p.Decide(t.Context(), c.principal, c.op)
			require.NoError(t, d.Err)
			require.Equal(t, c.effect, d.Effect, "%+v", d)
			require.Equal(t, c.rule, d.Rule)
		})
	}
}

func TestReasonOfADecision(t *testing.T) {
	p := parse(t, bank)
	staff := &auth.Principal{Subject: "ann", Tenant: "bank"}
	require.Equal(t, "large payments are for the CFO", p.Decide(t.Context(), staff, call("pay", `{"amount": 1001}`)).Reason)
	require.Equal(t, `principal.tenant == "bank"`, p.Decide(t.Context(), staff, call("pay", `{"amount": 1}`)).Reason)
	require.Equal(t, "no rule allows it", p.Decide(t.Context(), staff, call("delete", ``)).Reason)
}

// Arguments that a rule cannot be evaluated for are denied, also if the default and other rules allow.
func TestErrorOfAnEvaluationDenies(t *testing.T) {
	p := parse(t, `
default: allow
rules:
  - {name: amount, effect: deny, names: [pay], when: arguments.amount > 10}
  - {name: purpose, effect: allow, names: [ask], when: arguments.purpose == "test"}
  - {name: everything, effect: allow}
`)
	for _, c := range []struct{ tool, arguments, err string }{
		{"pay", `{}`, "rule amount, character 10 of the expression: no such key"},
		{"pay", ``, "rule amount, character 10 of the expression: no such key"},
		{"pay", `{"amount": "much"}`, "no such overload"},
		{"pay", `{"amount": null}`, "no such overload"},
		{"pay", `{"amount": 18446744073709551616}`, "no integer of 64 bits"},
		{"pay", `{"amount": 1e300}`, "no integer of 64 bits"},
		{"pay", `[11]`, "no JSON object"},
		{"pay", `{"amount": 1, "amount": 11}`, "have a member twice"},
		{"pay", `{"amount": 1`, "no valid JSON"},
		{"pay", `{"amount": 1} {}`, "no valid JSON"},
		{"ask", `{}`, "rule purpose, character 10 of the expression: no such key"},
	} {
		d := p.Decide(t.Context(), nil, call(c.tool, c.arguments))
		require.Equal(t, auth.Deny, d.Effect, "%s", c.arguments)
		require.ErrorContains(t, d.Err, c.err)
		require.False(t, d.Passes())
	}
	require.True(t, p.Decide(t.Context(), nil, listed("pay")).Effect == auth.Allow, "a tool that some arguments reach is listed")
	stats := p.Stats()
	require.Equal(t, policy.RuleStats{Name: "amount", Line: 4, Decided: 10, Failed: 10}, stats.Rules[0])
}

// A decision knows nothing of the arguments of the one before, also if that has failed.
func TestDecisionsShareNoArguments(t *testing.T) {
	p := parse(t, `
default: deny
rules:
  - {name: failed, effect: deny, names: [broken], when: arguments.a > 1}
  - {name: first, effect: allow, when: has(arguments.a)}
`)
	for _, c := range []struct {
		tool, arguments string
		want            auth.Effect
	}{
		{"pay", `{"a": 1}`, auth.Allow}, {"pay", `{"b": 1}`, auth.Deny}, {"pay", ``, auth.Deny}, {"broken", `{"a": "x"}`, auth.Deny},
		{"pay", `{}`, auth.Deny}, {"broken", `{"a": 1, `, auth.Deny}, {"pay", `{"b": 2}`, auth.Deny}, {"pay", `{"a": 3}`, auth.Allow},
	} {
		require.Equal(t, c.want, p.Decide(t.Context(), nil, call(c.tool, c.arguments)).Effect, c.arguments)
	}
}

// Integers are compared exactly, also those that a float64 would round.
func TestIntegersAreExact(t *testing.T) {
	p := parse(t, `
default: deny
rules:
  - {name: exact, effect: allow, names: [int], when: arguments.n == 9007199254740993}
  - {name: large, effect: allow, names: [uint], when: arguments.n == 18446744073709551615u}
  - {name: least, effect: allow, names: [min], when: arguments.n == -9223372036854775808}
  - {name: below, effect: allow, names: [below], when: arguments.n <= 9007199254740992}
  - {name: half, effect: allow, names: [half], when: arguments.n == 0.5}
  - {name: claim, effect: allow, names: [claim], when: principal.claims.n == 9007199254740993}
`)
	for _, c := range []struct {
		tool, n string
		effect  auth.Effect
		fails   bool
	}{
		{"int", "9007199254740993", auth.Allow, false},
		{"int", "9007199254740992", auth.Deny, false},
		{"int", "9007199254740994", auth.Deny, false},
		{"int", "9007199254740993.0", auth.Allow, false},
		{"int", "9.007199254740993e15", auth.Allow, false},
		{"int", "9007199254740993.5", auth.Deny, true},
		{"below", "9007199254740992", auth.Allow, false},
		{"below", "9007199254740993", auth.Deny, false},
		{"below", "9007199254740993.0", auth.Deny, false},
		{"uint", "18446744073709551615", auth.Allow, false},
		{"uint", "18446744073709551614", auth.Deny, false},
		{"uint", "18446744073709551616", auth.Deny, true},
		{"uint", "1.8446744073709551615e19", auth.Allow, false},
		{"min", "-9223372036854775808", auth.Allow, false},
		{"min", "-9223372036854775809", auth.Deny, true},
		{"half", "0.5", auth.Allow, false},
		{"half", "5e-1", auth.Allow, false},
		{"half", "1e-999999999", auth.Deny, false},
		{"half", "1e999999999", auth.Deny, true},
	} {
		d := p.Decide(t.Context(), nil, call(c.tool, `{"n": `+c.n+`}`))
		require.Equal(t, c.effect, d.Effect, "%s %s: %v", c.tool, c.n, d.Err)
		require.Equal(t, c.fails, d.Err != nil, "%s %s: %v", c.tool, c.n, d.Err)
	}
	for _, c := range []struct {
		n      any
		effect auth.Effect
		fails  bool
	}{
		{json.Number("9007199254740993"), auth.Allow, false},
		{int64(9007199254740993), auth.Allow, false},
		{float64(9007199254740993), auth.Deny, true}, // has been rounded
		{float64(3), auth.Deny, false},
	} {
		d := p.Decide(t.Context(), &auth.Principal{Subject: "ann", Claims: map[string]any{"n": c.n}}, call("claim", `{}`))
		require.Equal(t, c.effect, d.Effect, "%T %v: %v", c.n, c.n, d.Err)
		require.Equal(t, c.fails, d.Err != nil, "%T %v: %v", c.n, c.n, d.Err)
	}
}

func TestVariablesHaveTheirValues(t *testing.T) {
	op := &auth.Operation{
		Method: "resources/read", Kind: auth.KindTemplate, Name: "files", URI: "file:///a/b", Template: "file:///{+path}",
		Scopes: []string{"files:read"}, Arguments: []byte(`{"a": {"b": [1, true, null, "x"]}}`),
		Transport: "http", Address: "[2001:db8::1]:443", ClientName: "claude", ClientVersion: "1.2",
	}
	principal := &auth.Principal{
		Issuer: "https://id.example", Subject: "ann", Tenant: "t", Client: "c", Scopes: []string{"files:admin"}, Actors: []string{"bot", "gateway"},
		Claims: map[string]any{"groups": []any{"a", "b"}, "roles": []string{"r"}, "address": map[string]any{"city": "Bonn"}, "none": nil},
	}
	for _, expression := range []string{
		`principal.issuer == "https://id.example"`, `principal.subject == "ann"`, `principal.tenant == "t"`, `principal.client == "c"`,
		`principal.scopes == ["files:admin", "files:write", "files:read"]`, `"files:read" in principal.scopes`,
		`principal.actors == ["bot", "gateway"]`, `principal.actors[0] == "bot"`, `principal.scopes.exists(s, s.startsWith("files:"))`,
		`"b" in principal.claims.groups`, `"r" in principal.claims.roles`, `principal.claims.address.city == "Bonn"`, `principal.claims.none == null`,
		`operation.method == "resources/read"`, `operation.kind == "resource template"`, `operation.name == "files"`,
		`operation.uri.startsWith("file:///a/")`, `operation.template == "file:///{+path}"`, `operation.scopes == ["files:read"]`,
		`arguments.a.b[0] == 1 && arguments.a.b[1] == true && arguments.a.b[2] == null && arguments["a"]["b"][3] == "x"`,
		`!has(arguments.c) && !("c" in arguments) && has(arguments.a)`, `size(arguments) == 1`,
		`caller.transport == "http"`, `caller.address == "2001:db8::1"`, `caller.client_name == "claude"`, `caller.client_version == "1.2"`,
	} {
		text, err := json.Marshal(expression)
		require.NoError(t, err)
		p, err := policy.Parse([]byte("default: deny\nrules: [{name: a, effect: allow, when: "+string(text)+"}]"),
			policy.Config{Hierarchy: auth.Hierarchy{"files:admin": {"files:write"}, "files:write": {"files:read"}}})
		require.NoError(t, err, expression)
		d := p.Decide(t.Context(), principal, op)
		require.NoError(t, d.Err, expression)
		require.Equal(t, auth.Allow, d.Effect, expression)
	}
}

// What the protocol's own methods show is decided item by item. A rule can name them.
func TestMethodsWithoutAnItem(t *testing.T) {
	p := parse(t, `
default: deny
rules:
  - {name: everything, effect: deny, when: principal.subject == "eve"}
  - {name: quiet, effect: deny, methods: ["logging/*"]}
  - {name: reports, effect: allow, methods: [acme/report]}
`)
	eve := &auth.Principal{Subject: "eve"}
	for method, want := range map[string]auth.Decision{
		"ping":             {Effect: auth.Allow},
		"tools/list":       {Effect: auth.Allow},
		"logging/setLevel": {Effect: auth.Deny, Rule: "quiet"},
		"acme/report":      {Effect: auth.Deny, Rule: "everything", Reason: `principal.subject == "eve"`},
		"acme/other":       {Effect: auth.Deny, Rule: "everything", Reason: `principal.subject == "eve"`},
	} {
		require.Equal(t, want, p.Decide(t.Context(), eve, &auth.Operation{Method: method}), method)
	}
	require.Equal(t, "reports", p.Decide(t.Context(), nil, &auth.Operation{Method: "acme/report"}).Rule)
	require.Equal(t, "default", p.Decide(t.Context(), nil, &auth.Operation{Method: "acme/other"}).Rule)
}

// A template is listed if some of its URIs may be read.
func TestTemplateIsListedForItsURIs(t *testing.T) {
	p := parse(t, `
default: deny
rules:
  - {name: own, effect: allow, kinds: [resource template], when: operation.uri.startsWith("user:///" + principal.subject)}
`)
	op := auth.Operation{Method: "resources/read", Kind: auth.KindTemplate, Template: "user:///{name}"}
	ann := &auth.Principal{Subject: "ann"}
	op.Listed = true
	require.Equal(t, auth.Allow, p.Decide(t.Context(), ann, &op).Effect)
	op.URI = "user:///bob" // announced
	require.Equal(t, auth.Deny, p.Decide(t.Context(), ann, &op).Effect)
	op.Listed = false
	require.Equal(t, auth.Deny, p.Decide(t.Context(), ann, &op).Effect)
	op.URI = "user:///ann"
	require.Equal(t, auth.Allow, p.Decide(t.Context(), ann, &op).Effect)
}

func TestDryRunPassesAndTells(t *testing.T) {
	rules := func(file, rule string) *policy.Policy {
		return parse(t, "default: deny\n"+file+`
rules:
  - {name: old, effect: allow, names: [pay]}
  - {name: new, effect: deny, names: [pay], when: arguments.amount > 10, `+rule+`}
  - {name: wider, effect: allow, names: [read], dry_run: true}
`)
	}
	large, small, broken := call("pay", `{"amount": 11}`), call("pay", `{"amount": 10}`), call("pay", `{}`)
	p := rules("", "dry_run: true")
	d := p.Decide(t.Context(), nil, large)
	require.Equal(t, auth.Decision{Effect: auth.Deny, Rule: "new", Reason: "arguments.amount > 10", DryRun: true}, d)
	require.True(t, d.Passes())
	d = p.Decide(t.Context(), nil, broken)
	require.Error(t, d.Err)
	require.True(t, d.Passes())
	require.Equal(t, auth.Decision{Effect: auth.Allow, Rule: "old"}, p.Decide(t.Context(), nil, small))
	require.Equal(t, auth.Allow, p.Decide(t.Context(), nil, listed("pay")).Effect)
	d = p.Decide(t.Context(), nil, call("read", ``))
	require.False(t, d.Passes())
	require.Equal(t, "no rule allows it but wider, which is a dry run", d.Reason)

	p = rules("dry_run: true", "dry_run: false")
	d = p.Decide(t.Context(), nil, large)
	require.Equal(t, auth.Deny, d.Effect)
	require.True(t, d.Passes())
	require.True(t, p.Stats().DryRun)
	d = p.Decide(t.Context(), nil, call("other", ``))
	require.True(t, d.DryRun && d.Rule == "default")
}

func TestExplanationHasTheRulesThatWereAsked(t *testing.T) {
	p := parse(t, bank)
	e := p.Explain(&auth.Principal{Subject: "ann", Tenant: "bank"}, call("pay", `{"amount": 1}`))
	require.Equal(t, "staff", e.Decision.Rule)
	require.Equal(t, []policy.Step{
		{Rule: "large-payments", Line: 4, Effect: auth.Deny, Result: "no match"},
		{Rule: "suspended", Line: 9, Effect: auth.Deny, Result: "no match"},
		{Rule: "staff", Line: 12, Effect: auth.Allow, Result: "match"},
	}, e.Steps)
	e = p.Explain(nil, call("pay", `{}`))
	require.Equal(t, "error", e.Steps[0].Result)
	require.Equal(t, e.Decision.Err, e.Steps[0].Err)
	e = p.Explain(nil, listed("pay"))
	require.Equal(t, "unknown", e.Steps[0].Result)
	p.Decide(t.Context(), nil, listed("pay"))
	for _, rule := range p.Stats().Rules {
		require.Zero(t, rule.Decided, "explanations and lists count nothing")
	}
	p.Decide(t.Context(), nil, call("other", ""))
	require.Equal(t, uint64(1), p.Stats().Rules[4].Decided)
}
