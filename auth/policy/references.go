package policy

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// A reference is a member of the arguments that an expression reads, as the names on the way to it.
type reference []string

// references are what an expression reads of the variables that are unknown in lists.
type references struct {
	// operation says that it reads a variable of the operation, and uri that it reads that one.
	operation, uri bool

	all     bool        // the arguments as a whole
	members []reference // and members of them
	tested  []reference // members that it only looks for, as has() does
}

// arguments reports whether the expression reads arguments at all.
func (r *references) arguments() bool {
	return r.all || len(r.members)+len(r.tested) > 0
}

// onlyCaller reports whether the expression reads nothing but variables of the principal and the caller.
func (r *references) onlyCaller() bool { return !r.operation && !r.arguments() }

// readsOf finds what an expression reads. Where a variable of a loop has the name of ours, it
// finds too much, never too little.
func readsOf(e ast.Expr) (r references) {
	r.visit(e)
	return r
}

func (r *references) visit(e ast.Expr) {
	if path, ok := pathOf(e); ok {
		switch {
		case len(path) == 0:
			r.all = true
		case e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly():
			r.tested = append(r.tested, path)
		default:
			r.members = append(r.members, path)
		}
		return
	}
	switch e.Kind() {
	case ast.IdentKind:
		name := e.AsIdent()
		r.uri = r.uri || name == varURI
		r.operation = r.operation || strings.HasPrefix(name, "operation.")
	case ast.SelectKind:
		r.visit(e.AsSelect().Operand())
	case ast.CallKind:
		r.visitCall(e.AsCall())
	case ast.ListKind:
		r.visitAll(e.AsList().Elements())
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.visit(entry.AsMapEntry().Key())
			r.visit(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			r.visit(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		r.visitAll([]ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()})
	}
}

func (r *references) visitAll(list []ast.Expr) {
	for _, e := range list {
		r.visit(e)
	}
}

func (r *references) visitCall(call ast.CallExpr) {
	args := call.Args()
	if call.FunctionName() == operators.In && len(args) == 2 {
		name, isText := text(args[0])
		if path, ok := pathOf(args[1]); ok && isText { // "name" in arguments
			r.tested = append(r.tested, append(slices.Clip(path), name))
			return
		}
	}
	if call.IsMemberFunction() {
		r.visit(call.Target())
	}
	r.visitAll(args)
}

// pathOf returns the names on the way from the arguments to a member, as in arguments.a["b"].
func pathOf(e ast.Expr) (reference, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return nil, e.AsIdent() == varArguments
	case ast.SelectKind:
		path, ok := pathOf(e.AsSelect().Operand())
		return append(path, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index || len(call.Args()) != 2 {
			return nil, false
		}
		name, isText := text(call.Args()[1])
		path, ok := pathOf(call.Args()[0])
		return append(path, name), ok && isText
	}
	return nil, false
}

// text returns the value of a literal string.
func text(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().Value().(string)
	return s, ok
}
