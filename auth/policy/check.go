package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Finding is what [Policy.Check] finds: a rule that does not fit what is registered.
type Finding struct {
	Rule string
	Line int
	Text string
}

// String returns the finding with its line and rule.
func (f Finding) String() string { return fmt.Sprintf("line %d: rule %s: %s", f.Line, f.Rule, f.Text) }

// methodsOf are the methods that use items of a kind.
var methodsOf = map[string][]string{
	auth.KindTool:     {mcp.MethodToolsCall},
	auth.KindPrompt:   {mcp.MethodPromptsGet},
	auth.KindResource: {mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe},
	auth.KindTemplate: {mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe},
}

// Check compares the rules with what a server has registered. It finds methods and names that match
// nothing, arguments that no item has, and arguments that a caller may leave out, although the rule
// then denies. The rules hold whatever is found, because items can be registered later.
func (p *Policy) Check(items []auth.Item) []Finding {
	var c check
	for _, r := range p.rules.Load().rules {
		c.rule(r, items)
	}
	return c.findings
}

type check struct{ findings []Finding }

func (c *check) find(r *rule, format string, args ...any) {
	c.findings = append(c.findings, Finding{r.name, r.line, fmt.Sprintf(format, args...)})
}

func (c *check) rule(r *rule, items []auth.Item) {
	for _, pattern := range r.methods {
		known := slices.ContainsFunc(mcp.Methods(), func(m string) bool { return matches(pattern, m) }) ||
			slices.ContainsFunc(items, func(i auth.Item) bool { return i.Method != "" && matches(pattern, i.Method) })
		if !known {
			c.find(r, "there is no method %s", pattern)
		}
	}
	for _, pattern := range r.names {
		named := func(i auth.Item) bool { return i.Method == "" && among(r.kinds, i.Kind) && matches(pattern, i.Name) }
		if !slices.ContainsFunc(items, named) {
			c.find(r, "nothing with the name %s is registered", pattern)
		}
	}
	if r.when == nil {
		return
	}
	var affected []auth.Item
	for _, i := range items {
		if r.isForItem(i) {
			affected = append(affected, i)
		}
	}
	var told []string
	for _, path := range r.when.reads.members {
		if name := strings.Join(path, "."); len(affected) > 0 && !slices.Contains(told, name) {
			told = append(told, name)
			c.argument(r, path, affected)
		}
	}
}

// isForItem reports whether a rule is for a use of an item.
func (r *rule) isForItem(i auth.Item) bool {
	for _, method := range append(slices.Clone(methodsOf[i.Kind]), i.Method) {
		if method != "" && r.isFor(&auth.Operation{Method: method, Kind: i.Kind, Name: i.Name}) {
			return true
		}
	}
	return false
}

// argument looks for an argument that a rule reads.
func (c *check) argument(r *rule, path reference, items []auth.Item) {
	var without, optional []string
	for _, i := range items {
		switch argumentOf(i, path) {
		case absent:
			without = append(without, label(i))
		case maybe:
			optional = append(optional, label(i))
		}
	}
	name := strings.Join(path, ".")
	switch tested := r.when.reads.tests(path); {
	case len(without) == len(items):
		c.find(r, "there is no argument %s: %s", name, few(without))
	case tested:
	case len(without) > 0:
		c.find(r, "not all have the argument %s: where the expression reads it, the rule denies; has(arguments.%s) says whether it is there: %s",
			name, name, few(without))
	case len(optional) > 0:
		c.find(r, "the argument %s may be left out, and the rule then denies; has(arguments.%s) says whether it is there: %s",
			name, name, few(optional))
	}
}

// tests reports whether the expression looks whether a member is there, or one on the way to it.
func (r *references) tests(path reference) bool {
	return slices.ContainsFunc(r.tested, func(t reference) bool {
		return len(t) <= len(path) && slices.Equal(t, path[:len(t)])
	})
}

func label(i auth.Item) string {
	if i.Kind == "" {
		return i.Method
	}
	return i.Kind + " " + i.Name
}

// few returns the first names of a list.
func few(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
