package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A rule is a compiled rule.
type rule struct {
	name                  string
	effect                auth.Effect
	methods, kinds, names []string
	when                  *expression // nil: always
	reason                string
	dryRun                bool
	line                  int
	counts                *counts
}

// A ruleset is a compiled file. It is immutable.
type ruleset struct {
	denies, allows []*rule // that are enforced, in the order of the file
	dryDenies      []*rule
	dryAllows      []*rule
	rules          []*rule // all of them
	byDefault      auth.Effect
	dryRun         bool
	defaultCounts  *counts           // of decisions without a rule
	wanted         map[string]string // members of the arguments that rules read, see arguments; nil is all
	included       map[string][]string
	maxValues      int
	maxDepth       int
}

// compileFile compiles a file. The counts of rules that were there before go on.
func compileFile(text []byte, cfg *Config, before *ruleset) (*ruleset, error) {
	f, err := readFile(text, cfg)
	if err != nil {
		return nil, err
	}
	c, err := newCompiler(cfg)
	if err != nil {
		return nil, err
	}
	s := &ruleset{
		byDefault: effects[f.Default], dryRun: f.DryRun || cfg.DryRun, wanted: map[string]string{},
		included: includedBy(cfg.Hierarchy), maxValues: cfg.MaxValues, maxDepth: cfg.MaxDepth, defaultCounts: before.countsOf(RuleDefault),
	}
	for _, written := range f.Rules {
		r := &rule{
			name: written.Name, effect: effects[written.Effect], methods: written.Methods, kinds: written.Kinds, names: written.Names,
			reason: cmp.Or(written.Reason, shortened(written.When)), dryRun: written.DryRun, line: written.line,
			counts: before.countsOf(written.Name),
		}
		if strings.TrimSpace(written.When) != "" {
			if r.when, err = c.compile(written.When); err != nil {
				return nil, ruleError(written, err)
			}
			s.want(&r.when.reads)
		}
		s.add(r)
	}
	return s, nil
}

// ruleError says on which line of the file a mistake in an expression is.
func ruleError(r *fileRule, err error) error {
	line, column := r.whenLine, ""
	if e, ok := errors.AsType[*expressionError](err); ok {
		line += max(e.line-1, 0)
		column = fmt.Sprintf(", character %d of the expression", e.column)
	}
	return fmt.Errorf("line %d: rule %s%s: %w", line, r.Name, column, err)
}

// shortened returns the beginning of an expression on one line.
func shortened(s string) string {
	const most = 200
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// want adds what an expression reads to what is decoded of the arguments.
func (s *ruleset) want(r *references) {
	if r.all {
		s.wanted = nil
	}
	for _, path := range slices.Concat(r.members, r.tested) {
		if s.wanted != nil {
			s.wanted[path[0]] = path[0]
		}
	}
}

func (s *ruleset) add(r *rule) {
	s.rules = append(s.rules, r)
	list := &s.allows
	switch {
	case r.effect == auth.Deny && r.dryRun:
		list = &s.dryDenies
	case r.effect == auth.Deny:
		list = &s.denies
	case r.dryRun:
		list = &s.dryAllows
	}
	*list = append(*list, r)
}

// protocolMethods are the methods without an item that the protocol has. They are allowed unless a
// rule names them: what they show is decided item by item.
var protocolMethods = func() map[string]bool {
	all := map[string]bool{}
	for _, method := range mcp.Methods() {
		all[method] = true
	}
	return all
}()

// isProtocol reports whether an operation is one of the protocol's that are about no item.
func isProtocol(op *auth.Operation) bool { return op.Kind == "" && protocolMethods[op.Method] }

// isFor reports whether a rule is for an operation.
func (r *rule) isFor(op *auth.Operation) bool {
	if len(r.methods) == 0 && isProtocol(op) {
		return false
	}
	return among(r.methods, op.Method) && among(r.kinds, op.Kind) && among(r.names, op.Name)
}

// among reports whether a name matches one of the patterns; without patterns every name does.
func among(patterns []string, name string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, pattern := range patterns {
		if matches(pattern, name) {
			return true
		}
	}
	return false
}

// matches reports whether a name matches a pattern, whose last character may be *.
func matches(pattern, name string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return pattern == name
}
