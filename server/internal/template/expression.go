package template

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of the regular expression, which grows with the square of the number of variables in
// one expression, and with the length of prefixes.
const (
	maxVariables = 32
	maxPrefix    = 100
)

// An operator is the behaviour of an expression (RFC 6570, appendix A).
type operator struct {
	first, sep string
	named      bool // a value has its variable's name before it
	bare       bool // an empty value has no "=" after the name
	reserved   bool // a value may have reserved characters
}

func operatorOf(c byte) (op operator, explicit bool) {
	switch c {
	case '+':
		return operator{sep: ",", reserved: true}, true
	case '#':
		return operator{first: "#", sep: ",", reserved: true}, true
	case '.':
		return operator{first: ".", sep: "."}, true
	case '/':
		return operator{first: "/", sep: "/"}, true
	case ';':
		return operator{first: ";", sep: ";", named: true, bare: true}, true
	case '?':
		return operator{first: "?", sep: "&", named: true}, true
	case '&':
		return operator{first: "&", sep: "&", named: true}, true
	}
	return operator{sep: ","}, false
}

// A variable is one variable of an expression with its modifier.
type variable struct {
	name    string
	prefix  string // the length after the colon, or ""
	explode bool
}

// compile appends the regular expression for one {expression}, which must be valid.
func (t *Template) compile(b *strings.Builder, expression string) error {
	op, explicit := operatorOf(expression[0])
	if explicit {
		expression = expression[1:]
	}
	var vars []variable
	for spec := range strings.SplitSeq(expression, ",") {
		var v variable
		spec, v.explode = strings.CutSuffix(spec, "*")
		v.name, v.prefix, _ = strings.Cut(spec, ":")
		if t.Has(v.name) {
			return fmt.Errorf("template: variable %q occurs twice", v.name)
		}
		if n, _ := strconv.Atoi(v.prefix); n > maxPrefix { // the parser has checked that it is a number
			return fmt.Errorf("template: the prefix of variable %q is longer than %d", v.name, maxPrefix)
		}
		vars, t.names = append(vars, v), append(t.names, v.name)
	}
	if len(t.names) > maxVariables {
		return fmt.Errorf("template: it has more than %d variables", maxVariables)
	}
	// Any variable may be undefined. The first defined one follows the operator's first
	// character and has no separator before it. Values without names belong to the first
	// variables.
	first, sep := regexp.QuoteMeta(op.first), regexp.QuoteMeta(op.sep)
	b.WriteString(`(?:` + first + `(?:`)
	for i := range vars {
		if i > 0 {
			b.WriteByte('|')
		}
		t.value(b, op, vars[i], len(vars) == 1)
		for _, v := range vars[i+1:] {
			b.WriteString(`(?:` + sep)
			t.value(b, op, v, false)
			b.WriteString(`)?`)
		}
		if !op.named {
			break
		}
	}
	b.WriteString(`))?`)
	return nil
}

// value appends the regular expression for the value of one variable, in a group. A variable
// that is alone may have a list of values even if the comma separates variables.
func (t *Template) value(b *strings.Builder, op operator, v variable, alone bool) {
	sep, name := regexp.QuoteMeta(op.sep), regexp.QuoteMeta(v.name)
	one := char(op) + `*`
	if v.prefix != "" {
		one = char(op) + `{0,` + v.prefix + `}`
	}
	list := one
	switch {
	case v.explode && op.named:
		pair := name + `=` + one
		if op.bare {
			pair = name + `(?:=` + one + `)?`
		}
		b.WriteString(`(` + pair + `(?:` + sep + pair + `)*)`)
		t.groups = append(t.groups, group{v.name, op.sep})
		return
	case v.explode:
		list = one + `(?:` + sep + one + `)*`
	case v.prefix == "" && (alone || op.sep != ","):
		list = one + `(?:,` + one + `)*`
	}
	switch {
	case op.bare: // an empty group distinguishes a bare name from no name
		b.WriteString(name + `(?:=(` + list + `)|())`)
		t.groups = append(t.groups, group{variable: v.name})
	case op.named:
		b.WriteString(name + `=(` + list + `)`)
	default:
		b.WriteString(`(` + list + `)`)
	}
	t.groups = append(t.groups, group{variable: v.name})
}

// The octets of one percent-encoded character of UTF-8, by the length of its encoding.
const (
	follows = `%[89ABab][0-9A-Fa-f]`
	escape  = `%[0-7][0-9A-Fa-f]|%[CDcd][0-9A-Fa-f]` + follows +
		`|%[Ee][0-9A-Fa-f]` + follows + follows + `|%[Ff][0-7]` + follows + follows + follows
)

// char returns the regular expression for one character of a value. The length of a prefix
// counts characters. An escape may be only a part of one.
func char(op operator) string {
	class := `[A-Za-z0-9._~`
	if op.reserved {
		class += `:/?#\[\]@!$&'()*+,;=`
	}
	return `(?:` + class + `-]|` + escape + `)`
}
