package policy

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/vitrine-mcp/vitrine/auth"
)

// Bounds of one expression.
const (
	maxExpressionLength  = 16_384 // characters
	maxExpressionDepth   = 64
	maxRegexpProgramSize = 1_000 // instructions
)

// A compiler compiles expressions. It is safe for concurrent use.
type compiler struct {
	env       *cel.Env
	costLimit uint64
	maxCost   uint64 // of the estimate
}

// environment has the variables and functions of all expressions.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(append(declarations(),
		cel.CustomTypeAdapter(adapter{}),
		cel.ParserExpressionSizeLimit(maxExpressionLength),
		cel.ParserRecursionLimit(maxExpressionDepth),
		cel.RegexProgramSizeLimit(maxRegexpProgramSize),
		cel.ASTValidators(cel.ValidateRegexLiterals()),
	)...)
})

func newCompiler(cfg *Config) (*compiler, error) {
	env, err := environment()
	return &compiler{env: env, costLimit: cfg.MaxCost, maxCost: cfg.MaxCostEstimate}, err
}

// A result is what an expression says about an operation.
type result uint8

const (
	no result = iota
	yes
	unknown // it depends on what is not known yet
)

// An expression is a compiled condition. It is safe for concurrent use.
type expression struct {
	source  *ast.SourceInfo // says where its parts are
	known   cel.Program     // for operations whose variables are all known
	partial cel.Program     // for listed items
	reads   references
}

// An expressionError is a mistake in an expression.
type expressionError struct {
	line, column int // in the expression; line begins with 1
	text         string
}

func (e *expressionError) Error() string { return e.text }

// compile compiles an expression, which must be a bool.
func (c *compiler) compile(source string) (*expression, error) {
	tree, issues := c.env.Compile(source)
	if faults := issues.Errors(); len(faults) > 0 {
		first := faults[0]
		return nil, &expressionError{first.Location.Line(), first.Location.Column() + 1, explain(source, first.Message, first.Location)}
	}
	if out := tree.OutputType(); !out.IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("the expression has the type %s, and not bool%s", out, dynamicHint(out))
	}
	cost, err := c.env.EstimateCost(tree, usualSizes)
	switch {
	case err != nil:
		return nil, err
	case cost.Min > c.costLimit:
		return nil, &limitError{LimitCost, fmt.Sprintf("the expression takes %d steps or more, %d are allowed", cost.Min, c.costLimit)}
	case cost.Max > c.maxCost:
		return nil, &limitError{LimitCostEstimate, fmt.Sprintf("the expression may take %d steps, %d are allowed: "+
			"a loop inside a loop takes this long with large arguments", cost.Max, c.maxCost)}
	}
	e := &expression{source: tree.NativeRep().SourceInfo(), reads: readsOf(tree.NativeRep().Expr())}
	worst, err := c.env.EstimateCost(tree, largestSizes)
	if err != nil {
		return nil, err
	}
	var options []cel.ProgramOption
	if worst.Max > c.costLimit { // to count steps takes longer than most expressions
		options = append(options, cel.CostLimit(c.costLimit))
	}
	if e.known, err = c.env.Program(tree, append(options, cel.EvalOptions(cel.OptOptimize))...); err != nil {
		return nil, err
	}
	if e.reads.arguments() || e.reads.uri {
		e.partial, err = c.env.Program(tree, append(options, cel.EvalOptions(cel.OptOptimize, cel.OptPartialEval))...)
	}
	return e, err
}

// explain returns the message of the compiler on one line. Of a variable that does not exist it says
// which there are, because the compiler names only its first part.
func explain(source, message string, where common.Location) string {
	message, _, _ = strings.Cut(strings.TrimSpace(message), "\n")
	lines := strings.Split(source, "\n")
	if !strings.HasPrefix(message, "undeclared reference") || where.Line() < 1 || where.Line() > len(lines) {
		return message
	}
	rest := []rune(lines[where.Line()-1])
	name := variableName.FindString(string(rest[min(where.Column(), len(rest)):]))
	first, _, _ := strings.Cut(name, ".")
	var others []string
	for _, v := range variableNames {
		if strings.HasPrefix(v, first+".") {
			others = append(others, v)
		}
	}
	if name == "" || len(others) == 0 {
		return message
	}
	return fmt.Sprintf("there is no variable %s, there are %s", name, strings.Join(others, ", "))
}

var variableName = regexp.MustCompile(`^[a-z]+(\.\w+)?`)

func dynamicHint(t *cel.Type) string {
	if t.Kind() == types.DynKind {
		return `: compare what may have any type, as in "arguments.force == true"`
	}
	return ""
}

// eval evaluates the expression for an operation that is about to happen.
func (e *expression) eval(v *variables) (result, error) {
	value, _, err := e.known.Eval(v)
	if err != nil {
		if tooManySteps(err) {
			err = errTooManySteps
		}
		return no, err
	}
	return truth(value == types.True), nil
}

// evalListed evaluates it for an item that is listed. The result holds for all arguments and variables
// of its template, or is unknown. An error may be due to the evaluation of something that another
// evaluation, with known values, would skip; so it is unknown, too, if the expression reads what is
// unknown.
func (e *expression) evalListed(v *variables) (result, error) {
	var patterns [2]*cel.AttributePatternType
	missing := patterns[:0]
	if e.reads.arguments() {
		missing = append(missing, cel.AttributePattern(varArguments))
	}
	if e.reads.uri && uriUnknown(v.op) {
		missing = append(missing, cel.AttributePattern(varURI))
	}
	if len(missing) == 0 {
		return e.eval(v)
	}
	vars, err := cel.PartialVars(v, missing...)
	if err != nil {
		return unknown, err
	}
	value, _, err := e.partial.Eval(vars)
	if err != nil || types.IsUnknown(value) {
		return unknown, nil
	}
	return truth(value == types.True), nil
}

// uriUnknown reports whether an operation stands for all that a template matches.
func uriUnknown(op *auth.Operation) bool {
	return op.Listed && op.Kind == auth.KindTemplate && op.URI == ""
}

func truth(b bool) result {
	if b {
		return yes
	}
	return no
}

// errTooManySteps is the error of an evaluation that took too long.
var errTooManySteps = &limitError{LimitCost, "the expression takes too many steps"}
