package template

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds on a template. The work of a match grows with the number of variables.
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
	number  int // of all variables of the template
	prefix  int // characters, 0 is all
	explode bool
}

// A part of a template is a literal text, or an expression.
type part struct {
	literal string
	op      operator
	vars    []variable
}

// expression reads one {expression}, which must be valid.
func (t *Template) expression(text string) (part, error) {
	op, explicit := operatorOf(text[0])
	if explicit {
		text = text[1:]
	}
	p := part{op: op}
	for spec := range strings.SplitSeq(text, ",") {
		v := variable{number: len(t.names)}
		spec, v.explode = strings.CutSuffix(spec, "*")
		name, prefix, _ := strings.Cut(spec, ":")
		v.name = name
		v.prefix, _ = strconv.Atoi(prefix) // the parser has checked that it is a number
		if t.Has(name) {
			return p, fmt.Errorf("template: variable %q occurs twice", name)
		}
		if v.prefix > maxPrefix {
			return p, fmt.Errorf("template: the prefix of variable %q is longer than %d", name, maxPrefix)
		}
		p.vars, t.names = append(p.vars, v), append(t.names, name)
	}
	if len(t.names) > maxVariables {
		return p, fmt.Errorf("template: it has more than %d variables", maxVariables)
	}
	return p, nil
}

// compile returns the state that matches a part, and then next.
func (p part) compile(a *automaton, next *state) *state {
	if p.vars == nil {
		return a.literal(p.literal, next)
	}
	// Any variable may be undefined. The first defined one follows the operator's first
	// character and has no separator before it. Values without names belong to the first
	// variables.
	later := next    // what follows once a variable is defined
	var first *state // no variable is defined yet
	for i := len(p.vars) - 1; i >= 0; i-- {
		value := p.value(a, p.vars[i], later)
		if p.op.named || i == 0 {
			first = a.either(value, first)
		}
		if i > 0 {
			later = a.either(a.literal(p.op.sep, p.value(a, p.vars[i], later)), later)
		}
	}
	return a.either(a.literal(p.op.first, first), next)
}

// value returns the state that matches the value of one variable, and then next. A variable that is
// alone may have a list of values even if the comma separates variables.
func (p part) value(a *automaton, v variable, next *state) *state {
	if v.explode && p.op.named {
		return p.pairs(a, v, next)
	}
	class := plainRun
	switch {
	case p.op.reserved:
		class = reservedRun
	case v.explode && p.op.sep == "/":
		class = slashRun
	case v.explode && p.op.sep == ".": // is unreserved
	case v.explode, v.prefix == 0 && (len(p.vars) == 1 || p.op.sep != ","):
		class = commaRun
	}
	value := a.add(state{op: opValue, class: class, most: v.prefix, variable: v.number, next: next})
	switch {
	case p.op.bare: // nothing is the value of a bare name
		bare := a.add(state{op: opValue, class: emptyRun, variable: v.number, next: next})
		return a.literal(v.name, a.either(a.literal("=", value), bare))
	case p.op.named:
		return a.literal(v.name+"=", value)
	}
	return value
}

// pairs returns the state that matches "variable=value" one time or more, and then next.
func (p part) pairs(a *automaton, v variable, next *state) *state {
	end := a.add(state{op: opEnd, variable: v.number, sep: p.op.sep, next: next})
	again := a.add(state{op: opEither, other: end})
	value := a.literal("=", a.add(state{op: opRun, class: plainRun, most: v.prefix, next: again}))
	if p.op.bare {
		value = a.either(value, again)
	}
	pair := a.literal(v.name, value)
	again.next = a.literal(p.op.sep, pair)
	return a.add(state{op: opBegin, variable: v.number, next: pair})
}
