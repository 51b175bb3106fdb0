package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vitrine-mcp/vitrine/auth"
)

// maxNameLength is the longest name of a rule in bytes.
const maxNameLength = 64

// RuleDefault is the rule that a decision names if no rule of the file matches.
const RuleDefault = "default"

// A fileRule is one rule as it is written.
type fileRule struct {
	Name    string   `yaml:"name"`
	Effect  string   `yaml:"effect"`
	Methods []string `yaml:"methods"`
	Kinds   []string `yaml:"kinds"`
	Names   []string `yaml:"names"`
	When    string   `yaml:"when"`
	Reason  string   `yaml:"reason"`
	DryRun  bool     `yaml:"dry_run"`

	line     int // of the rule
	whenLine int // of the first line of its expression
}

// A file is a policy file as it is written.
type file struct {
	Default string      `yaml:"default"`
	DryRun  bool        `yaml:"dry_run"`
	Rules   []*fileRule `yaml:"rules"`
}

// readFile parses and checks what can be checked without the expressions. Its errors begin with
// the line of the mistake.
func readFile(text []byte, cfg *Config) (*file, error) {
	if len(text) > cfg.MaxFileBytes {
		return nil, &limitError{LimitFileBytes, fmt.Sprintf("the file has more than the %d bytes that are allowed", cfg.MaxFileBytes)}
	}
	var f file
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&f); errors.Is(err, io.EOF) {
		return nil, errors.New(`the file is empty: say at least "default: deny" or "default: allow"`)
	} else if err != nil {
		return nil, yamlError(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has a second document: a policy is one document")
	}
	f.findLines(text)
	return &f, f.check(cfg.MaxRules)
}

// yamlError makes one line of an error of the YAML library, which begins with the line of the file.
func yamlError(err error) error {
	if faults, ok := errors.AsType[*yaml.TypeError](err); ok && len(faults.Errors) > 0 {
		return errors.New(strings.ReplaceAll(strings.Join(faults.Errors, "; "), " in type policy.", " in a "))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

// findLines finds the lines of the rules and of their expressions.
func (f *file) findLines(text []byte) {
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil || len(doc.Content) != 1 {
		return // it was read before, so this does not happen
	}
	rules := valueOf(doc.Content[0], "rules")
	if rules == nil || len(rules.Content) != len(f.Rules) {
		return
	}
	for i, node := range rules.Content {
		if f.Rules[i] == nil {
			continue
		}
		f.Rules[i].line = node.Line
		if when := valueOf(node, "when"); when != nil {
			f.Rules[i].whenLine = when.Line
			if when.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
				f.Rules[i].whenLine++ // the text begins on the line after the mark
			}
		}
	}
}

// valueOf returns the value of a name in a mapping, or nil.
func valueOf(node *yaml.Node, name string) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// check finds mistakes outside the expressions.
func (f *file) check(maxRules int) error {
	if _, ok := effects[f.Default]; !ok {
		return fmt.Errorf(`default is %q: it must be "deny" or "allow", and says what happens if no rule matches`, f.Default)
	}
	if len(f.Rules) > maxRules {
		return &limitError{LimitRules, fmt.Sprintf("the file has %d rules, %d are allowed", len(f.Rules), maxRules)}
	}
	seen := map[string]int{}
	for i, r := range f.Rules {
		if r == nil {
			return fmt.Errorf("rule %d is empty", i+1)
		}
		if err := r.check(); err != nil {
			return err
		}
		if first, ok := seen[r.Name]; ok {
			return fmt.Errorf("line %d: there is a rule %s on line %d already: decisions name their rule", r.line, r.Name, first)
		}
		seen[r.Name] = r.line
	}
	return nil
}

var effects = map[string]auth.Effect{"deny": auth.Deny, "allow": auth.Allow}

var kinds = map[string]bool{auth.KindTool: true, auth.KindPrompt: true, auth.KindResource: true, auth.KindTemplate: true}

func (r *fileRule) check() error {
	if !validName(r.Name) {
		return fmt.Errorf("line %d: the rule has the name %q: a name is 1 to %d letters, digits, _, - and ., and begins with a letter",
			r.line, r.Name, maxNameLength)
	}
	if r.Name == RuleDefault || r.Name == auth.RuleScopes {
		return fmt.Errorf("line %d: a rule cannot have the name %s, which other decisions have", r.line, r.Name)
	}
	if _, ok := effects[r.Effect]; !ok {
		return fmt.Errorf(`line %d: rule %s: effect is %q, it must be "deny" or "allow"`, r.line, r.Name, r.Effect)
	}
	for _, kind := range r.Kinds {
		if !kinds[kind] {
			return fmt.Errorf(`line %d: rule %s: there is no kind %q: kinds are "tool", "prompt", "resource" and "resource template"`, r.line, r.Name, kind)
		}
	}
	for _, pattern := range append(append([]string(nil), r.Methods...), r.Names...) {
		if pattern == "" || strings.Contains(strings.TrimSuffix(pattern, "*"), "*") {
			return fmt.Errorf("line %d: rule %s: %q is no name: * can only be the last character", r.line, r.Name, pattern)
		}
	}
	return nil
}

// validName reports whether a text can be the name of a rule, which is a label of metrics.
func validName(s string) bool {
	if s == "" || len(s) > maxNameLength || !letter(rune(s[0])) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !letter(r) && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	})
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
