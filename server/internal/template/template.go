// Package template finds out whether a URI is one of those that a URI template
// (RFC 6570) stands for, and with which values.
//
// A template is compiled to one regular expression, so that the time of a match grows
// with the length of the URI and with nothing else that a client sends. The library that parses the
// templates has a matcher of its own, but a URI of 2 kB costs it from 2 to 400 ms,
// and it copies maps for each character.
package template

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"
)

// MaxLength is the longest template, and the longest URI that matches one, in bytes.
const MaxLength = 4096

// A Template is a compiled template. It is immutable and may be used from any
// goroutine.
type Template struct {
	prefix string // of every URI that matches
	re     *regexp.Regexp
	names  []string
	groups []group // of re, the first being the match itself
}

// A group says what a group of the regular expression captures.
type group struct {
	variable string
	// sep is what separates the "variable=value" pairs of an exploded variable whose name
	// is repeated; "" if the group captures the value alone.
	sep string
}

// Parse compiles a template. It returns an error if it breaks RFC 6570, is too long or
// has too many variables or too long a prefix, or names a variable twice: a URI could
// then contradict itself.
func Parse(raw string) (*Template, error) {
	if len(raw) > MaxLength {
		return nil, fmt.Errorf("template: it is longer than %d bytes", MaxLength)
	}
	if _, err := uritemplate.New(raw); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	t := &Template{groups: []group{{}}}
	t.prefix, _, _ = strings.Cut(raw, "{")
	var b strings.Builder
	b.WriteString(`\A`)
	for rest := raw; rest != ""; {
		literal, expression, found := strings.Cut(rest, "{")
		b.WriteString(regexp.QuoteMeta(literal))
		if !found {
			break
		}
		expression, rest, _ = strings.Cut(expression, "}")
		if err := t.compile(&b, expression); err != nil {
			return nil, err
		}
	}
	b.WriteString(`\z`)
	var err error
	if t.re, err = regexp.Compile(b.String()); err != nil {
		return nil, fmt.Errorf("template: it is too large: %w", err)
	}
	return t, nil
}

// Variables returns the names of the variables, in their order. It must not be changed.
func (t *Template) Variables() []string { return t.names }

// Has reports whether the template has a variable.
func (t *Template) Has(name string) bool { return slices.Contains(t.names, name) }

// Matches reports whether the template stands for a URI.
func (t *Template) Matches(uri string) bool {
	return len(uri) <= MaxLength && strings.HasPrefix(uri, t.prefix) && t.re.MatchString(uri)
}

// Match returns the values of the variables, percent-decoded, and false if the
// template does not stand for the URI. A variable that the URI leaves out is not in the
// map. The values of a variable that has several are joined with the separator that
// they have in the URI, and with a comma if the variable's name is repeated.
func (t *Template) Match(uri string) (map[string]string, bool) {
	if len(uri) > MaxLength || !strings.HasPrefix(uri, t.prefix) {
		return nil, false
	}
	at := t.re.FindStringSubmatchIndex(uri)
	if at == nil {
		return nil, false
	}
	vars := make(map[string]string, len(t.names))
	for i, g := range t.groups[1:] {
		if begin, end := at[2*i+2], at[2*i+3]; begin >= 0 {
			vars[g.variable] = g.value(uri[begin:end])
		}
	}
	return vars, true
}

// value returns the value that a group has captured.
func (g group) value(captured string) string {
	if g.sep == "" {
		return decode(captured)
	}
	values := strings.Split(captured, g.sep)
	for i, pair := range values {
		_, value, _ := strings.Cut(pair, "=")
		values[i] = decode(value)
	}
	return strings.Join(values, ",")
}

func decode(s string) string {
	s, _ = url.PathUnescape(s) // the expression lets only valid escapes pass
	return s
}
