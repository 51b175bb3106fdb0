package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A ruledWorld is a server with random items, random policies and random callers, for
// TestListsAndUsesAgree. Its rules change once, from phase 0 to phase 1.
type ruledWorld struct {
	random   *rand.Rand
	srv      *server.Server
	items    []*ruledItem // in the order of registration
	policies []*ruledPolicy
	callers  []*ruledCaller
	pageSize int
	phase    atomic.Int32
	finish   chan struct{} // closed when tasks may end

	mu  sync.Mutex
	ran []string // the items whose code has run
}

// A ruledItem is an item. Its key is what requests name: its name, URI or URI template.
type ruledItem struct {
	kind, name, key string
	scopes          []string
	personal        bool // a URI that ends with 1 needs the scope "one"
	task            bool
}

// A ruledCaller is somebody who calls in one way.
type ruledCaller struct {
	token             string
	principal         *auth.Principal
	transport, client string
}

// A ruledPolicy decides by the first rule that fits.
type ruledPolicy struct {
	phase   *atomic.Int32
	rules   [2][]rule
	effect  auth.Effect // without a fitting rule
	failing int         // a denial is 1: an error, 2: a panic
	dryRun  bool
}

// A rule fits an operation if each of its members is empty, or fits: the subject, the kind, the way, prefixes
// of the name and the URI, and the argument v.
type rule struct {
	subject, kind, transport, client string
	name, uri, value                 string
	onlyListed                       bool // a mistake of its author: it hides in lists alone
	effect                           auth.Effect
	scopes                           []string
}

// values are those of the argument and the variable v. No rule names the last one.
var values = []string{"1", "2", "3", "4"}

func (r *rule) fits(p *auth.Principal, op *auth.Operation) bool {
	subject := ""
	if p != nil {
		subject = p.Subject
	}
	if r.value != "" {
		var arguments struct{ V string }
		if json.Unmarshal(op.Arguments, &arguments) != nil || arguments.V != r.value {
			return false
		}
	}
	is := func(want, got string) bool { return want == "" || want == got }
	return is(r.subject, subject) && is(r.kind, op.Kind) && is(r.transport, op.Transport) && is(r.client, op.ClientName) &&
		strings.HasPrefix(op.Name, r.name) && strings.HasPrefix(op.URI, r.uri) && (op.Listed || !r.onlyListed)
}

// Decide implements auth.Policy. It denies a listed item if it denies each of its uses.
func (p *ruledPolicy) Decide(_ context.Context, who *auth.Principal, op *auth.Operation) auth.Decision {
	d := p.first(who, op, op.Listed)
	if op.Listed && d.Effect != auth.Deny {
		d = auth.Decision{}
		for _, use := range usesOf(op) {
			if one := p.first(who, &use, false); one.Effect == auth.Allow || d.Effect == auth.Deny {
				d = one
			}
		}
	}
	d.DryRun = p.dryRun
	switch {
	case d.Effect == auth.Deny && p.failing == 1:
		d.Err = errors.New("the policy has failed")
	case d.Effect == auth.Deny && p.failing == 2:
		panic("the policy has failed")
	}
	return d
}

// usesOf returns the uses of a listed item with all values.
func usesOf(op *auth.Operation) (uses []auth.Operation) {
	for _, value := range values {
		use := *op
		switch op.Kind {
		case auth.KindTemplate:
			use.URI = expand(op.Template, value)
		case auth.KindTool, auth.KindPrompt:
			use.Arguments = fmt.Appendf(nil, `{"v":%q}`, value)
		}
		uses = append(uses, use)
	}
	return uses
}

// first returns what the first fitting rule says: of those for lists alone, or of all others.
func (p *ruledPolicy) first(who *auth.Principal, op *auth.Operation, onlyListed bool) auth.Decision {
	for _, r := range p.rules[p.phase.Load()] {
		if r.onlyListed == onlyListed && r.fits(who, op) {
			return auth.Decision{Effect: r.effect, Scopes: r.scopes, Rule: "fits"}
		}
	}
	if onlyListed {
		return auth.Decision{Effect: auth.Allow}
	}
	return auth.Decision{Effect: p.effect, Rule: "default", Scopes: []string{"default"}}
}

// expand replaces the variable of a template.
func expand(template, value string) string {
	before, _, _ := strings.Cut(template, "{")
	return before + value
}

// A verdict is what must happen: the caller is served, needs scopes, or finds nothing.
type verdict struct {
	effect auth.Effect
	scopes []string
}

// judge says what must happen when a caller lists an item, or uses it with a URI and arguments.
func (w *ruledWorld) judge(c *ruledCaller, it *ruledItem, uri, arguments string, listed bool) verdict {
	op := auth.Operation{Kind: it.kind, Name: it.name, Listed: true, Transport: c.transport, ClientName: c.client}
	switch it.kind {
	case auth.KindResource:
		op.URI = it.key
	case auth.KindTemplate:
		op.Template = it.key
	}
	questions := []auth.Operation{op}
	if !listed {
		use := op
		if use.Listed = false; it.kind == auth.KindTemplate {
			use.URI = uri
		}
		if arguments != "" {
			use.Arguments = []byte(arguments)
		}
		questions = append(questions, use)
	}
	last := len(questions) - 1
	needed := map[string]bool{}
	for _, s := range it.scopes {
		needed[s] = true
	}
	if it.personal && strings.HasSuffix(questions[last].URI, "1") {
		needed["one"] = true
	}
	challenged := false
	for s := range needed {
		challenged = challenged || !c.has(s)
	}
	for _, p := range w.policies {
		for i, q := range questions {
			d, failed := decided(p, c, &q)
			switch {
			case p.dryRun:
			case failed || d.Effect == auth.Deny:
				return verdict{effect: auth.Deny}
			case i == last && d.Effect == auth.NeedScopes:
				challenged = true
				for _, s := range d.Scopes {
					needed[s] = true
				}
			}
		}
	}
	if challenged {
		return verdict{auth.NeedScopes, slices.Sorted(maps.Keys(needed))}
	}
	return verdict{effect: auth.Allow}
}

// decided asks a policy, which may panic.
func decided(p *ruledPolicy, c *ruledCaller, op *auth.Operation) (d auth.Decision, failed bool) {
	defer func() { failed = recover() != nil || d.Err != nil }()
	return p.Decide(context.Background(), c.principal, op), false
}

// has reports whether a caller has a scope: admin includes write, and write includes read.
func (c *ruledCaller) has(scope string) bool {
	enough := map[string][]string{"read": {"read", "write", "admin"}, "write": {"write", "admin"}}[scope]
	return c.principal != nil && slices.ContainsFunc(append(enough, scope), func(s string) bool { return slices.Contains(c.principal.Scopes, s) })
}

// judgeURI says what must happen when a caller reads a URI, or subscribes to it, and which item serves it.
// hidden says that another one would come first.
func (w *ruledWorld) judgeURI(c *ruledCaller, uri string) (by *ruledItem, v verdict, hidden bool) {
	for _, kind := range []string{auth.KindResource, auth.KindTemplate} {
		for _, it := range w.items {
			before, _, _ := strings.Cut(it.key, "{")
			rest, under := strings.CutPrefix(uri, before)
			if it.kind != kind || kind == auth.KindResource && it.key != uri || !under || strings.Contains(rest, "/") {
				continue
			}
			if v := w.judge(c, it, uri, "", false); v.effect != auth.Deny {
				return it, v, hidden
			}
			hidden = true
		}
	}
	return nil, verdict{effect: auth.Deny}, hidden
}

// uris are all that can be read.
func (w *ruledWorld) uris() (all []string) {
	for _, it := range w.items {
		switch it.kind {
		case auth.KindResource:
			all = append(all, it.key)
		case auth.KindTemplate:
			for _, v := range values {
				all = append(all, expand(it.key, v))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func newRuledWorld(t *testing.T, seed uint64) *ruledWorld {
	w := &ruledWorld{random: rand.New(rand.NewPCG(seed, 17)), finish: make(chan struct{})}
	for i, key := range []string{"alpha-1", "alpha-2", "beta-1", "beta-2"} {
		w.items = append(w.items, &ruledItem{kind: auth.KindTool, name: key, key: key, task: i%2 == 0},
			&ruledItem{kind: auth.KindPrompt, name: key, key: key})
	}
	for i, key := range []string{"x:alpha", "x:alpha/1", "x:alpha/2", "x:beta/1"} {
		w.items = append(w.items, &ruledItem{kind: auth.KindResource, name: []string{"alpha", "alpha-1", "alpha-2", "beta-1"}[i], key: key})
	}
	for i, key := range []string{"x:alpha/{v}", "x:alpha/{w}", "x:beta/{v}", "y:{v}"} {
		w.items = append(w.items, &ruledItem{kind: auth.KindTemplate, name: []string{"alpha-1", "alpha-2", "beta-1", "beta-2"}[i], key: key})
	}
	w.pageSize = 1 + w.random.IntN(4)
	opts := []server.Option{byFullToken, server.WithPageSize(w.pageSize),
		server.WithScopeHierarchy(auth.Hierarchy{"admin": {"write"}, "write": {"read"}})}
	for n := range min(w.random.IntN(7), 3) { // the first one asks for arguments, so that together they deny nothing for all of them
		p := &ruledPolicy{phase: &w.phase, effect: auth.Allow, dryRun: n == 2}
		if w.random.IntN(4) == 0 {
			p.effect = auth.Effect(w.random.IntN(3))
		}
		if !p.dryRun {
			p.failing = max(0, w.random.IntN(6)-3)
		}
		for phase := range p.rules {
			for range 1 + w.random.IntN(4) {
				p.rules[phase] = append(p.rules[phase], w.rule(n == 0))
			}
		}
		w.policies = append(w.policies, p)
		opts = append(opts, server.WithPolicy(p))
	}
	for _, who := range []string{"ann", "bob", ""} {
		c := &ruledCaller{}
		if who != "" {
			scopes := w.some("read", "write", "admin", "one", "more", "default")
			c.token = strings.Join(append([]string{"i", who, "-", "0"}, scopes...), " ")
			c.principal = &auth.Principal{Issuer: "i", Subject: who, Scopes: scopes}
		}
		w.callers = append(w.callers, c)
	}
	w.srv = newTaskServer(t, opts...)
	t.Cleanup(func() { require.NoError(t, w.srv.Shutdown(context.Background())) })
	for _, it := range w.items {
		if w.random.IntN(3) == 0 {
			it.scopes = w.some("read", "write", "more")
		}
		it.personal = w.random.IntN(4) == 0 && (it.kind == auth.KindResource || it.kind == auth.KindTemplate)
		w.add(it, "")
	}
	return w
}

// some returns a random part of all.
func (w *ruledWorld) some(all ...string) []string {
	return slices.DeleteFunc(all, func(string) bool { return w.random.IntN(2) == 0 })
}

// rule returns a random rule.
func (w *ruledWorld) rule(arguments bool) rule {
	maybe := func(of int, all ...string) string {
		if w.random.IntN(of) != 0 {
			return ""
		}
		return all[w.random.IntN(len(all))]
	}
	r := rule{
		subject: maybe(3, "ann", "bob"), kind: maybe(3, auth.KindTool, auth.KindPrompt, auth.KindResource, auth.KindTemplate),
		transport: maybe(9, "http", "memory"), client: maybe(9, "old"),
		name: maybe(2, "alpha", "beta", "alpha-1", "beta-2"), effect: []auth.Effect{auth.Deny, auth.Deny, auth.Allow, auth.NeedScopes}[w.random.IntN(4)],
	}
	if w.random.IntN(3) == 0 { // one item
		it := w.items[w.random.IntN(len(w.items))]
		r.kind, r.name = it.kind, it.name
	}
	if r.effect == auth.NeedScopes {
		r.scopes = []string{"more", "special"}[w.random.IntN(2):]
	}
	if arguments {
		r.uri = maybe(5, "x:", "x:alpha/", "x:alpha/1", "x:beta/2", "y:", "y:3")
		r.value = maybe(4, "1", "2", "3")
		r.onlyListed = w.random.IntN(6) == 0
	}
	if r.onlyListed {
		r.effect, r.scopes, r.value = auth.Deny, nil, ""
	}
	return r
}

// runs notes that the code of an item has run, and returns its text.
func (w *ruledWorld) runs(it *ruledItem) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, it.kind+" "+it.key)
	return "served"
}

// add registers an item, or replaces it.
func (w *ruledWorld) add(it *ruledItem, title string) {
	var scopesFor func(uri string) []string
	if it.personal {
		scopesFor = func(uri string) []string {
			if strings.HasSuffix(uri, "1") {
				return []string{"one"}
			}
			return nil
		}
	}
	complete := func(context.Context, *server.Call, string, map[string]string) ([]string, error) {
		return []string{w.runs(it)}, nil
	}
	switch it.kind {
	case auth.KindTool:
		support := server.TaskSupport(0)
		if it.task {
			support = server.TaskOptional
		}
		server.AddTool(w.srv, server.Tool{Name: it.key, Title: title, Scopes: it.scopes, Task: support},
			func(ctx context.Context, call *server.Call, _ map[string]any) (string, error) {
				if it.task {
					later, err := call.Detach(ctx, server.TaskOptions{})
					if err != nil || later == ctx {
						return w.runs(it), err
					}
					select {
					case <-w.finish:
					case <-later.Done():
					}
				}
				return w.runs(it), nil
			})
	case auth.KindPrompt:
		server.AddPrompt(w.srv, server.Prompt{Name: it.key, Title: title, Scopes: it.scopes, Arguments: []server.PromptArgument{{Name: "v", Complete: complete}}},
			func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
				return mcp.PromptText(w.runs(it)), nil
			})
	case auth.KindResource:
		server.AddResource(w.srv, server.Resource{URI: it.key, Name: it.name, Title: title, Scopes: it.scopes, ScopesFor: scopesFor},
			func(context.Context, *server.Call, string) (string, error) { return w.runs(it), nil })
	case auth.KindTemplate:
		variable := it.key[len(it.key)-2 : len(it.key)-1]
		server.AddResourceTemplate(w.srv, server.ResourceTemplate{URITemplate: it.key, Name: it.name, Title: title, Scopes: it.scopes, ScopesFor: scopesFor,
			Complete: map[string]server.CompleteFunc{variable: complete}},
			func(context.Context, *server.Call, string, map[string]string) (string, error) { return w.runs(it), nil })
	}
}

// remove removes an item. When it is added again it comes last.
func (w *ruledWorld) remove(it *ruledItem) {
	switch it.kind {
	case auth.KindTool:
		w.srv.RemoveTools(it.key)
	case auth.KindPrompt:
		w.srv.RemovePrompts(it.key)
	case auth.KindResource:
		w.srv.RemoveResources(it.key)
	case auth.KindTemplate:
		w.srv.RemoveResourceTemplates(it.key)
	}
	at := slices.Index(w.items, it)
	w.items = append(slices.Delete(w.items, at, at+1), it)
}
