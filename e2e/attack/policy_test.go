package attack

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// hiddenRules hide everything with the name hidden from all but olga.
const hiddenRules = `
default: allow
rules:
  - name: not-for-all
    effect: deny
    names: [hidden]
    when: principal.subject != "olga"
`

// A use is one way to use an item that a policy denies, in either era.
type use struct {
	call
	legacyOnly bool
}

// usesOf are all ways to use the items with a name.
func usesOf(name string) map[string]use {
	prompt, resource, template := fmt.Sprintf("%q", name), "test://"+name, name+"://{a}"
	complete := func(ref string) use {
		return use{call: call{method: "completion/complete", params: `"ref":` + ref + `,"argument":{"name":"a","value":"s"}`}}
	}
	uri := func(method, uri string) use {
		return use{call: call{method: method, params: fmt.Sprintf(`"uri":%q`, uri), name: uri}}
	}
	subscribe := func(uri string) use {
		return use{call: call{method: "resources/subscribe", params: fmt.Sprintf(`"uri":%q`, uri)}, legacyOnly: true}
	}
	return map[string]use{
		"call": {call: call{tool: name}}, "call with arguments": {call: call{tool: name, arguments: `{"a":1}`}},
		"call as a task": {call: call{tool: name, extra: `"task":{"ttl":1000}`, extension: true}},
		"get":            {call: call{method: "prompts/get", params: `"name":` + prompt, name: name}},
		"get with more":  {call: call{method: "prompts/get", params: `"name":` + prompt + `,"arguments":{"b":"1"}`, name: name}},
		"read":           uri("resources/read", resource), "read of a template": uri("resources/read", name+"://1"),
		"complete": complete(`{"type":"ref/prompt","name":` + prompt + `}`), "complete a template": complete(fmt.Sprintf(`{"type":"ref/resource","uri":%q}`, template)),
		"subscribe": subscribe(resource), "subscribe to a template": subscribe(name + "://1"), "unsubscribe": {call: call{
			method: "resources/unsubscribe", params: fmt.Sprintf(`"uri":%q`, resource)}, legacyOnly: true},
	}
}

// What a policy denies is answered as if it did not exist, to the byte, however it is used; lists do not
// have it. Whom the policy lets use it notices nothing.
func TestDeniedItemsAreUnknown(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	s := i.protected(t, "--policy", writeFile(t, "policy.yaml", hiddenRules), "--auth-optional")
	undisturbed := s.others(t)
	olga := s.caller(t, bystanders, "olga")
	olga.initialize(t)
	for _, name := range []string{"mallory", ""} {
		c := s.caller(t, attacker, name)
		c.initialize(t)
		hidden, absent := usesOf("hidden"), usesOf("absent") // names of one length
		for what := range hidden {
			for era, send := range map[string]func(*caller, call) response{
				"modern": func(c *caller, what call) response { return c.modern(t, 1, what) },
				"legacy": func(c *caller, what call) response { return c.legacy(t, 1, what) },
			} {
				if hidden[what].legacyOnly && era == "modern" {
					continue
				}
				denied, unknown := answerOf(send(c, hidden[what].call)), answerOf(send(c, absent[what].call))
				if strings.ReplaceAll(denied, "hidden", "absent") != unknown {
					t.Errorf("%s, %s: denied\n%s\nunknown\n%s", what, era, denied, unknown)
				}
				if allowed := send(olga, hidden[what].call); allowed.Result == nil && what != "get with more" && what != "call with arguments" {
					t.Errorf("%s, %s, of a caller that may: %d %s", what, era, allowed.status, allowed.body)
				}
			}
		}
		c.listsNothing(t, "hidden", "not-for-all", "secret")
		c.hearsNothingOf(t, "hidden", "absent")
	}
	if n := s.metrics(t).sum("vitrine_policy_decisions_total", `rule="not-for-all"`, `effect="deny"`); n == 0 {
		t.Error("the policy has denied nothing")
	}
	undisturbed()
}

// listsNothing checks that no list has a text.
func (c *caller) listsNothing(t *testing.T, texts ...string) {
	t.Helper()
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		for _, r := range []response{c.modern(t, 1, call{method: method}), c.legacy(t, 1, call{method: method})} {
			if r.Result == nil {
				t.Errorf("%s: %d %s", method, r.status, r.body)
			}
			for _, text := range texts {
				if strings.Contains(r.body, text) {
					t.Errorf("%s has %s: %s", method, text, r.body)
				}
			}
		}
	}
}

// hearsNothingOf subscribes to what is denied and to what does not exist: the first message of both
// streams is the same.
func (c *caller) hearsNothingOf(t *testing.T, denied, unknown string) {
	t.Helper()
	var first [2]string
	for i, name := range []string{denied, unknown} {
		what := call{method: "subscriptions/listen", params: fmt.Sprintf(`"notifications":{"resourceSubscriptions":["test://%s"]}`, name)}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		req, err := c.request(ctx, http.MethodPost, what.header(), what.frame(1, true))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for in := bufio.NewScanner(resp.Body); in.Scan() && !strings.Contains(first[i], "data: {"); {
			first[i] += in.Text() + "\n"
		}
		first[i] = strings.ReplaceAll(fmt.Sprint(resp.StatusCode, first[i]), denied, unknown)
	}
	if first[0] != first[1] {
		t.Errorf("a subscription to what is denied: %s\nto what is unknown: %s", first[0], first[1])
	}
}

// A policy file that becomes wrong while the server runs changes nothing: what was denied stays denied,
// what was allowed stays allowed, and the log says which line is wrong. The server looks at the file
// every ten seconds.
func TestWrongPolicyFilesChangeNothing(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	rules := writeFile(t, "policy.yaml", hiddenRules)
	s := i.protected(t, "--policy", rules)
	undisturbed := s.others(t)
	olga, mallory := s.caller(t, bystanders, "olga"), s.caller(t, attacker, "mallory")
	decided := func() {
		t.Helper()
		if r := olga.modern(t, 1, call{tool: "hidden"}); r.text() != "secret" {
			t.Errorf("olga may, and gets %d %s", r.status, r.body)
		}
		if r := mallory.modern(t, 1, call{tool: "hidden"}); r.Error == nil || strings.Contains(r.body, "secret") {
			t.Errorf("mallory may not, and gets %d %s", r.status, r.body)
		}
	}
	decided()
	wrong := strings.Replace(hiddenRules, "principal.subject", "principal.nosuch", 1)
	if err := os.WriteFile(rules, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		for _, line := range s.log.all() {
			if strings.Contains(line, "policy.reload") && strings.Contains(line, "line 7") {
				return nil
			}
		}
		return fmt.Errorf("no record of the mistake")
	})
	decided()
	undisturbed()
}
