package policy

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"
	"github.com/go-json-experiment/json/jsontext"
)

// An evaluationError says why a rule cannot be evaluated. It has no part of a value of the arguments or of the principal:
// errors are logged. It says no more than 200 bytes.
type evaluationError struct {
	rule  string // its name
	place string // in the expression, or ""
	text  string
	limit *limitError // or nil
}

// Error implements error.
func (e *evaluationError) Error() string { return "rule " + e.rule + e.place + ": " + e.text }

// Unwrap returns the limit that was reached.
func (e *evaluationError) Unwrap() error {
	if e.limit == nil { // which is no nil error
		return nil
	}
	return e.limit
}

// failed returns the error of an evaluation of the rule, in our words.
func (r *rule) failed(err error) error {
	e := &evaluationError{rule: r.name}
	if limit, ok := errors.AsType[*limitError](err); ok {
		e.limit, e.text = limit, limit.Error()
		return e
	}
	if own, ok := errors.AsType[*argumentError](err); ok {
		e.text = own.text
		return e
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if e.text = "the arguments are no valid JSON"; errors.Is(syntax.Err, jsontext.ErrDuplicateName) {
			e.text = "the arguments have a member twice"
		}
		return e
	}
	e.text, e.place = kindOf(err), r.when.placeOf(err)
	return e
}

// tooManySteps reports whether an evaluation has ended because it took too long.
func tooManySteps(err error) bool {
	cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err)
	return ok && cancelled.Cause == interpreter.CostLimitExceeded
}

// kindsOfErrors are the kinds of errors of CEL, each with how its texts begin. The rest of a text may have values.
var kindsOfErrors = []struct{ start, kind string }{
	{"no such key", "no such key"},
	{"index out of bounds", "no such index"},
	{"no such overload", "a value has another type (no such overload)"},
	{"unsupported index", "a value has another type"},
	{"got '", "a value has another type"},
	{"type conversion error", "a value that cannot be converted"},
	{"invalid RFC 3339 timestamp", "a text that is no timestamp"},
	{"unknown time zone", "no such time zone"},
	{"error parsing regexp", "a text that is no regular expression"},
	{"regex program size", "a regular expression that is too large"},
	{"division by zero", "a division by zero"},
	{"modulus by zero", "a division by zero"},
	{"integer overflow", tooLargeToCalculate},
	{"unsigned integer overflow", tooLargeToCalculate},
	{"duration overflow", tooLargeToCalculate},
	{"timestamp overflow", tooLargeToCalculate},
}

const tooLargeToCalculate = "a number or a time that is too large"

// kindOf returns the kind of an error of CEL.
func kindOf(err error) string {
	text := err.Error()
	for _, k := range kindsOfErrors {
		if strings.HasPrefix(text, k.start) {
			return k.kind
		}
	}
	return "another error of the evaluation"
}

// shared reports whether an error of CEL is one that all expressions share. It has the place of the expression that was the
// first to fail with it.
func shared(failed *types.Err) bool {
	return failed == types.NoSuchOverloadErr() || failed.Error() == "timestamp overflow"
}

// placeOf returns where in the expression an error of CEL is, or "".
func (e *expression) placeOf(err error) string {
	failed, ok := errors.AsType[*types.Err](err)
	if !ok || shared(failed) {
		return ""
	}
	at := e.source.GetStartLocation(failed.NodeID())
	if at.Line() < 1 {
		return ""
	}
	if at.Line() == 1 {
		return fmt.Sprintf(", character %d of the expression", at.Column()+1)
	}
	return fmt.Sprintf(", line %d, character %d of the expression", at.Line(), at.Column()+1)
}
