package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
)

var registered = []auth.Item{
	{Kind: auth.KindTool, Name: "pay", InputSchema: []byte(`{"type": "object", "required": ["amount", "to"], "additionalProperties": false, "properties": {
		"amount": {"type": "integer"}, "text": {"type": "string"},
		"to": {"type": "object", "required": ["iban"], "properties": {"iban": {"type": "string"}, "bic": {"type": "string"}}}}}`)},
	{Kind: auth.KindTool, Name: "read_rates", InputSchema: []byte(`{"type": "object", "properties": {"day": {"type": "string"}}}`)},
	{Kind: auth.KindTool, Name: "free", InputSchema: []byte(`{"type": "object", "additionalProperties": true}`)},
	{Kind: auth.KindTool, Name: "nothing", InputSchema: []byte(`{"type": "object", "additionalProperties": false}`)},
	{Kind: auth.KindPrompt, Name: "letter", Arguments: []string{"tone"}},
	{Kind: auth.KindResource, Name: "terms"},
	{Kind: auth.KindTemplate, Name: "accounts"},
	{Method: "acme/report"},
}

// A server asks policies about the use of items and about methods of the program. A rule for anything else never applies.
func TestCheckFindsRulesThatNeverApply(t *testing.T) {
	unasked := func(method string) string {
		return "a server asks no policy about the method " + method +
			": it asks about tools/call, prompts/get, resources/read (also for a subscription), and methods of the program"
	}
	const otherKind = "the methods of the rule are not those of its kinds"
	for rule, want := range map[string]string{
		`methods: ["logging/*"]`:                                unasked("logging/*"),
		`methods: [tools/list]`:                                 unasked("tools/list"),
		`methods: [tools/list], names: [pay]`:                   unasked("tools/list"),
		`methods: [tools/list, tools/call]`:                     unasked("tools/list"),
		`methods: [resources/subscribe]`:                        unasked("resources/subscribe"),
		`methods: [resources/subscribe], names: [terms]`:        unasked("resources/subscribe"),
		`methods: [resources/subscribe, tools/call]`:            unasked("resources/subscribe"),
		`methods: [resources/unsubscribe]`:                      unasked("resources/unsubscribe"),
		`methods: [subscriptions/listen]`:                       unasked("subscriptions/listen"),
		`methods: ["tasks/*"]`:                                  unasked("tasks/*"),
		`methods: ["notifications/*"]`:                          unasked("notifications/*"),
		`methods: [resources/read, resources/subscribe]`:        "",
		`methods: ["resources/*", "res*", "*"]`:                 "",
		`methods: [tools/call], kinds: [prompt]`:                otherKind,
		`methods: [acme/report], kinds: [tool]`:                 otherKind,
		`methods: [acme/report], names: ["*"]`:                  "",
		`methods: [tools/call], names: [letter]`:                "nothing with the name letter is registered",
		`methods: [acme/report], names: [pay]`:                  "nothing with the name pay is registered",
		`methods: [tool/call], names: [pay]`:                    "there is no method tool/call",
		`methods: [tools/call], kinds: [tool, prompt]`:          "",
		`methods: [resources/read], kinds: [resource template]`: "",
	} {
		p := parse(t, "default: deny\nrules:\n  - {name: a, effect: allow, "+rule+"}\n")
		var texts []string
		for _, found := range p.Check(registered) {
			texts = append(texts, found.Text)
		}
		if want == "" {
			require.Empty(t, texts, rule)
			continue
		}
		require.Equal(t, []string{want}, texts, rule)
	}
}

func TestCheckFindsRulesThatDoNotFit(t *testing.T) {
	for rule, want := range map[string]string{
		`names: [pay, "read_*"]`:                                             "",
		`methods: [tools/call, "resources/*", acme/report]`:                  "",
		`methods: [tool/call]`:                                               "there is no method tool/call",
		`names: [pya]`:                                                       "nothing with the name pya is registered",
		`names: ["write_*"]`:                                                 "nothing with the name write_* is registered",
		`names: [letter], kinds: [tool]`:                                     "nothing with the name letter is registered",
		`names: [terms, accounts]`:                                           "",
		`names: [acme/report]`:                                               "nothing with the name acme/report is registered",
		`names: [pay], when: "arguments.amount > 1"`:                         "",
		`names: [pay], when: "arguments.amuont > 1"`:                         "there is no argument amuont: tool pay",
		`names: [pay], when: "arguments['amuont'] > 1"`:                      "there is no argument amuont: tool pay",
		`names: [pay], when: "has(arguments.amuont)"`:                        "",
		`names: [pay], when: "arguments.to.iban == ''"`:                      "",
		`names: [pay], when: "arguments.to.ibn == ''"`:                       "there is no argument to.ibn: tool pay",
		`names: [pay], when: "arguments.text == ''"`:                         "the argument text may be left out, and the rule then denies; has(arguments.text) says whether it is there: tool pay",
		`names: [pay], when: "arguments.to.bic == ''"`:                       "the argument to.bic may be left out, and the rule then denies; has(arguments.to.bic) says whether it is there: tool pay",
		`names: [letter], when: "arguments.tone == ''"`:                      "the argument tone may be left out, and the rule then denies; has(arguments.tone) says whether it is there: prompt letter",
		`names: [letter], when: "arguments.size == ''"`:                      "there is no argument size: prompt letter",
		`names: [free], when: "arguments.size == ''"`:                        "",
		`names: [terms], when: "arguments.size == ''"`:                       "there is no argument size: resource terms",
		`methods: [acme/report], when: "arguments.size == 1"`:                "",
		`kinds: [tool], when: "arguments.amount > 1"`:                        "not all have the argument amount: where the expression reads it, the rule denies; has(arguments.amount) says whether it is there: tool read_rates, tool nothing",
		`kinds: [tool], when: "has(arguments.text) && arguments.text == ''"`: "",
		`kinds: [tool], when: "'text' in arguments && arguments.text == ''"`: "",
		`kinds: [tool], when: "size(arguments) > 1"`:                         "",
		`kinds: [tool], when: "[1].exists(i, i == arguments.amount)"`:        "not all have the argument amount: where the expression reads it, the rule denies; has(arguments.amount) says whether it is there: tool read_rates, tool nothing",
	} {
		p := parse(t, "default: deny\nrules:\n  - {name: a, effect: allow, "+rule+"}\n")
		findings := p.Check(registered)
		if want == "" {
			require.Empty(t, findings, rule)
			continue
		}
		require.Equal(t, []policy.Finding{{Rule: "a", Line: 3, Text: want}}, findings, rule)
		require.Equal(t, "line 3: rule a: "+want, findings[0].String())
	}
}
