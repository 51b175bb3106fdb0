package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// validator is the library that compiles schemas. Its own evaluation has no bound.
const validator = `"github.com/santhosh-tekuri/jsonschema/v6"`

// validationFaults returns the calls of Validate with one argument in a file that imports the library.
// Methods of ours have more. Tests may compare.
func validationFaults(name string, source []byte) (faults []string) {
	if strings.HasSuffix(name, "_test.go") || name == "server/internal/schema/evaluate/format.go" { // one format of a bounded text
		return nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, 0)
	if err != nil {
		return []string{err.Error()}
	}
	imports := false
	for _, spec := range file.Imports {
		imports = imports || spec.Path.Value == validator
	}
	if !imports {
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 {
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Validate" {
				faults = append(faults, fmt.Sprintf("%s validates with the library, whose cost has no bound: use evaluate.Program", set.Position(call.Pos())))
			}
		}
		return true
	})
	return faults
}

func TestValuesAreValidatedAtABoundedCost(t *testing.T) {
	for name, source := range goFiles(t) {
		if strings.HasPrefix(name, "server/") || strings.HasPrefix(name, "service/") || strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "cmd/") {
			report(t, validationFaults(name, source))
		}
	}
}

func TestValidationFaults(t *testing.T) {
	source := []byte("package p\nimport jsv " + validator + "\nfunc f(s *jsv.Schema) { _ = s.Validate(nil) }\n")
	if len(validationFaults("server/x.go", source)) != 1 || len(validationFaults("server/x_test.go", source)) != 0 {
		t.Error("the rule does not see the call")
	}
}
