package policy

import (
	"cmp"
	"fmt"
	"maps"
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

// methodsOf are the methods that a server asks policies about the items of a kind. A subscription to a resource is
// asked about as a request to read it, the work on a task as a call of its tool, and a list item by item.
var methodsOf = map[string]string{
	auth.KindTool:     mcp.MethodToolsCall,
	auth.KindPrompt:   mcp.MethodPromptsGet,
	auth.KindResource: mcp.MethodResourcesRead,
	auth.KindTemplate: mcp.MethodResourcesRead,
}

// Check compares the rules with what a server has registered. It finds methods and names that match
// nothing, methods that a server asks no policy about, arguments that no item has, and arguments that a
// caller may leave out, although the rule then denies. The rules hold whatever is found, because items can
// be registered later.
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
	c.methods(r, items)
	if !r.canApply(items) {
		return
	}
	for _, pattern := range r.names {
		named := *r
		named.names = []string{pattern}
		if !slices.ContainsFunc(items, named.isForItem) {
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

// methods looks for methods that a server asks no policy about.
func (c *check) methods(r *rule, items []auth.Item) {
	asked := false
	for _, pattern := range r.methods {
		fits := func(method string) bool { return matches(pattern, method) }
		switch {
		case slices.ContainsFunc(askedMethods(items), fits):
			asked = true
		case !slices.ContainsFunc(mcp.Methods(), fits):
			c.find(r, "there is no method %s", pattern)
		case fits(mcp.MethodResourcesSubscribe) && among(r.methods, mcp.MethodResourcesRead): // middleware.Authorize asks about both
		default:
			c.find(r, "a server asks no policy about the method %s: it asks about %s, %s, %s (also for a subscription), and methods of the program",
				pattern, mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead)
		}
	}
	if asked && !r.canApply(items) {
		c.find(r, "the methods of the rule are not those of its kinds")
	}
}

// askedMethods are the methods that a server asks policies about.
func askedMethods(items []auth.Item) []string {
	asked := slices.Collect(maps.Values(methodsOf))
	for _, i := range items {
		if i.Method != "" {
			asked = append(asked, i.Method)
		}
	}
	return asked
}

// canApply reports whether a server asks about methods and kinds that the rule is for.
func (r *rule) canApply(items []auth.Item) bool {
	unnamed := *r
	unnamed.names = nil
	for kind := range methodsOf {
		if unnamed.isForItem(auth.Item{Kind: kind}) {
			return true
		}
	}
	return slices.ContainsFunc(items, unnamed.isForItem)
}

// isForItem reports whether a rule is for a use of an item.
func (r *rule) isForItem(i auth.Item) bool {
	return r.isFor(&auth.Operation{Method: cmp.Or(i.Method, methodsOf[i.Kind]), Kind: i.Kind, Name: i.Name})
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
