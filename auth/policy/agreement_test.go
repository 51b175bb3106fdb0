package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
)

// A world makes up policies, principals, items and arguments.
type world struct {
	*rand.Rand
	keys  int  // arguments that conditions have read
	fresh bool // each argument is read once, by a condition that holds for some values, and nothing fails
}

func (w *world) pick(list ...string) string { return list[w.IntN(len(list))] }

// known is a condition whose value lists know. Some fail.
func (w *world) known() string {
	conditions := []string{
		`principal.subject == "ann"`, `principal.tenant == "bank"`, `"read" in principal.scopes`, `principal.scopes.exists(s, s == "write")`,
		`operation.name == "a"`, `operation.kind == "tool"`, `operation.template != ""`, `caller.transport == "http"`, `true`, `false`,
		`size(principal.actors) > 0`, `has(principal.claims.level)`,
	}
	if !w.fresh {
		conditions = append(conditions, `principal.claims.level > 2`, `principal.actors[0] == "bot"`, `1 / size(principal.scopes) > 0`,
			`principal.subject.matches("^a+n$")`)
	}
	return w.pick(conditions...)
}

// argument is a condition that lists do not know.
func (w *world) argument() string {
	if w.fresh {
		w.keys++
		return fmt.Sprintf("arguments.k%d == true", w.keys-1)
	}
	key := w.pick("arguments.k0", "arguments.k1", "arguments.k2", `arguments["k3"]`)
	return w.pick(
		key+" == true", key+" != 1", key+" > 9007199254740992", key+" in [1, 'x', true]", "has(arguments.k1)", "'k2' in arguments",
		key+".a == 1", "size(arguments) > 1", "arguments.k0.exists(x, x == 1)", "arguments.k1.all(x, x > 0)", key+" == arguments.k0",
		key+".startsWith('x')", "arguments == {'k0': 1}", `operation.uri.startsWith("file:///a")`, `operation.uri == ""`, `size(operation.uri) > 10`,
		"arguments.exists(k, k == 'k0')", "1 / "+key+" == 1",
	)
}

func (w *world) condition(depth int) string {
	if depth == 0 || w.IntN(5) == 0 {
		if w.IntN(2) == 0 {
			return w.known()
		}
		return w.argument()
	}
	switch w.IntN(4) {
	case 0:
		return "!(" + w.condition(depth-1) + ")"
	case 1:
		return "(" + w.condition(depth-1) + " && " + w.condition(depth-1) + ")"
	case 2:
		return "(" + w.condition(depth-1) + " || " + w.condition(depth-1) + ")"
	}
	if w.fresh {
		return w.condition(depth - 1)
	}
	return "(" + w.condition(depth-1) + " ? " + w.condition(depth-1) + " : " + w.condition(depth-1) + ")"
}

func (w *world) file() string {
	var b strings.Builder
	fmt.Fprintf(&b, "default: %s\nrules:\n", w.pick("deny", "allow"))
	for i := range 1 + w.IntN(4) {
		fmt.Fprintf(&b, "  - name: r%d\n    effect: %s\n", i, w.pick("deny", "allow"))
		if w.IntN(3) == 0 {
			fmt.Fprintf(&b, "    names: [%s]\n", w.pick("a", "b", `"a*"`, "a, b"))
		}
		if w.IntN(4) == 0 {
			fmt.Fprintf(&b, "    kinds: [%s]\n", w.pick("tool", "resource template", "tool, prompt"))
		}
		if w.IntN(6) == 0 {
			b.WriteString("    dry_run: true\n")
		}
		if w.IntN(8) > 0 {
			fmt.Fprintf(&b, "    when: >-\n      %s\n", w.condition(w.IntN(4)))
		}
	}
	return b.String()
}

func (w *world) principal() *auth.Principal {
	if w.IntN(6) == 0 {
		return nil
	}
	p := &auth.Principal{Subject: w.pick("ann", "bob"), Tenant: w.pick("bank", "shop", "")}
	for range w.IntN(3) {
		p.Scopes = append(p.Scopes, w.pick("read", "write"))
	}
	if w.IntN(2) == 0 {
		p.Actors = []string{w.pick("bot", "gateway")}
	}
	switch w.IntN(3) {
	case 0:
		p.Claims = map[string]any{"level": w.IntN(5)}
	case 1:
		p.Claims = map[string]any{"level": "high"}
	}
	return p
}

func (w *world) item() auth.Operation {
	if w.IntN(3) == 0 {
		return auth.Operation{Method: "resources/read", Kind: auth.KindTemplate, Name: w.pick("a", "b", "files"), Template: "file:///{name}", Transport: "http"}
	}
	return auth.Operation{Method: "tools/call", Kind: auth.KindTool, Name: w.pick("a", "b", "ab", "c"), Transport: w.pick("http", "stdio")}
}

// used is the operation that uses an item, with arguments or a URI.
func (w *world) used(item auth.Operation) auth.Operation {
	if item.Kind == auth.KindTemplate {
		item.URI = w.pick("file:///a", "file:///abc", "file:///bcdefgh", "")
		return item
	}
	var members []string
	for k := range 4 {
		if w.IntN(3) > 0 {
			members = append(members, fmt.Sprintf(`"k%d": %s`, k, w.pick("true", "1", "0", "2", `"x"`, `"xyz"`, "null", `{"a": 1}`, "[1, 2]", "[]", "[-1]",
				"9007199254740993", "18446744073709551616", "1.5")))
		}
	}
	item.Arguments = []byte("{" + strings.Join(members, ", ") + "}")
	return item
}

// What a list hides is refused for all arguments, and what it shows although nothing depends on
// them is served.
func TestHiddenItemsAreRefusedForAllArguments(t *testing.T) {
	seed := rand.Uint64()
	w := &world{Rand: rand.New(rand.NewPCG(seed, 0))}
	hidden, shown, decided := 0, 0, 0
	for range 400 {
		text := w.file()
		p, err := policy.Parse([]byte(text), policy.Config{})
		require.NoError(t, err, "seed %d\n%s", seed, text)
		for range 20 {
			principal, item := w.principal(), w.item()
			item.Listed = true
			inList := p.Explain(principal, &item)
			item.Listed = false
			for range 8 {
				op := w.used(item)
				d := p.Decide(t.Context(), principal, &op)
				switch {
				case !inList.Decision.Passes():
					hidden++
					require.False(t, d.Passes(), "seed %d: %+v is hidden from %v and served with %s %q\n%s", seed, item, principal, op.Arguments, op.URI, text)
				case !dependsOnArguments(inList):
					decided++
					require.True(t, d.Passes(), "seed %d: %+v is shown to %v and refused with %s %q: %+v\n%s", seed, item, principal, op.Arguments, op.URI, d, text)
				default:
					shown++
				}
			}
		}
	}
	t.Logf("%d calls of hidden items, %d of shown ones, %d of those that depend on arguments", hidden, decided, shown)
	require.Greater(t, min(hidden, shown, decided), 1000)
}

func dependsOnArguments(e policy.Explanation) bool {
	for _, step := range e.Steps {
		if step.Result == "unknown" {
			return true
		}
	}
	return false
}

// What a list shows can be used with some arguments, if no two conditions look at the same one.
func TestShownItemsAreServedForSomeArguments(t *testing.T) {
	seed := rand.Uint64()
	w := &world{Rand: rand.New(rand.NewPCG(seed, 0)), fresh: true}
	shown, hidden := 0, 0
	for range 300 {
		w.keys = 0
		text := w.file()
		if w.keys > 8 {
			continue
		}
		p, err := policy.Parse([]byte(text), policy.Config{})
		require.NoError(t, err, "seed %d\n%s", seed, text)
		for range 10 {
			principal, op := w.principal(), w.item()
			op.Kind, op.Template = auth.KindTool, ""
			op.Listed = true
			passes := p.Decide(t.Context(), principal, &op)
			op.Listed = false
			served := 0
			for values := range 1 << w.keys {
				var members []string
				for k := range w.keys {
					members = append(members, fmt.Sprintf(`"k%d": %t`, k, values>>k&1 == 1))
				}
				op.Arguments = []byte("{" + strings.Join(members, ", ") + "}")
				if d := p.Decide(t.Context(), principal, &op); d.Passes() {
					served++
				}
			}
			require.Equal(t, passes.Passes(), served > 0, "seed %d: %+v for %v: listed: %+v, served for %d of %d\n%s", seed, op, principal, passes, served, 1<<w.keys, text)
			if served > 0 {
				shown++
			} else {
				hidden++
			}
		}
	}
	t.Logf("%d items are shown, %d are hidden", shown, hidden)
	require.Greater(t, min(shown, hidden), 100)
}

// A list evaluates what a call with the right arguments skips. That it takes too long then hides nothing.
func TestItemWhoseListingTakesTooLongIsShown(t *testing.T) {
	p, err := policy.Parse([]byte(`
default: deny
rules:
  - {name: a, effect: allow, when: 'arguments.quick == true || principal.scopes.exists(s, s.endsWith("x"))'}
`), policy.Config{MaxCost: 50})
	require.NoError(t, err)
	ann := &auth.Principal{Subject: "ann", Scopes: strings.Fields(strings.Repeat("read ", 100))}
	require.ErrorContains(t, p.Decide(t.Context(), ann, call("a", `{"quick": false}`)).Err, "max_policy_cost")
	require.Equal(t, auth.Allow, p.Decide(t.Context(), ann, call("a", `{"quick": true}`)).Effect)
	require.Equal(t, auth.Allow, p.Decide(t.Context(), ann, listed("a")).Effect)
}
