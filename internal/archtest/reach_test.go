package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A testFunc is what a test function reaches: in its own body, and in the functions, methods,
// variables and constants of its package's tests that it refers to, directly or indirectly.
type testFunc struct {
	strings map[string]bool // string literals
	runs    bool            // it has subtests
	fails   bool            // something can fail it
	skipped bool            // its body skips, whatever holds
}

// reached returns the test functions in Go files by folder and name, as in
// "server.TestTools". Files of package x and of package x_test in one folder are two
// packages. References are resolved by name: for a local variable with the name of a function
// of the package, and for methods with one name, the result has too much, never too little.
func reached(files map[string][]byte) (map[string]*testFunc, error) {
	packages := map[string]map[string][]ast.Node{} // by folder and package: declarations by name
	for name, text := range files {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		key := path.Dir(name) + " " + file.Name.Name
		if packages[key] == nil {
			packages[key] = map[string][]ast.Node{}
		}
		declare(packages[key], file)
	}
	tests := map[string]*testFunc{}
	for key, decls := range packages {
		dir, _, _ := strings.Cut(key, " ")
		for name, nodes := range decls {
			for _, n := range nodes {
				if f, ok := n.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(name, "Test") {
					tests[dir+"."+name] = reach(f, decls)
				}
			}
		}
	}
	return tests, nil
}

// declare adds what a file declares, by name; a method's name begins with a dot.
func declare(decls map[string][]ast.Node, file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = "." + name
			}
			decls[name] = append(decls[name], d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					for _, name := range v.Names {
						decls[name.Name] = append(decls[name.Name], v)
					}
				}
			}
		}
	}
}

// reach follows the references of a test function.
func reach(test *ast.FuncDecl, decls map[string][]ast.Node) *testFunc {
	found := &testFunc{strings: map[string]bool{}, skipped: skips(test)}
	seen := map[string]bool{}
	next := []ast.Node{test}
	refer := func(name string) {
		if !seen[name] {
			seen[name] = true
			next = append(next, decls[name]...)
		}
	}
	for len(next) > 0 {
		node := next[len(next)-1]
		next = next[:len(next)-1]
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field: // a parameter, or a member with a tag, which names no subtest
				return false
			case *ast.SelectorExpr:
				refer("." + n.Sel.Name)
				// The package or value that it is selected from is looked at alone, so that
				// the member's own name is not taken for a name of the package.
				if x, ok := n.X.(*ast.Ident); ok {
					refer(x.Name)
					return false
				}
			case *ast.Ident:
				refer(n.Name)
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					found.strings[s] = true
				}
			case *ast.CallExpr:
				found.fails = found.fails || fails(n)
				found.runs = found.runs || runs(n)
			}
			return true
		})
	}
	return found
}

// fails reports whether a call can fail a test.
func fails(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, _ := f.X.(*ast.Ident)
	switch f.Sel.Name {
	case "Fatal", "Fatalf", "Fail", "FailNow":
		return true
	case "Error", "Errorf": // of a test, not the Error() of an error
		return len(call.Args) > 0 && (from == nil || from.Name != "fmt")
	}
	return from != nil && (from.Name == "require" || from.Name == "assert" || from.Name == "goleak")
}

// runs reports whether a call runs a subtest.
func runs(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Run" && len(call.Args) == 2
}

// skips reports whether a statement of the function's own body, under no condition, skips.
func skips(test *ast.FuncDecl) bool {
	return slices.ContainsFunc(test.Body.List, func(s ast.Stmt) bool {
		e, ok := s.(*ast.ExprStmt)
		if !ok {
			return false
		}
		call, ok := e.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		return ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, f.Sel.Name)
	})
}

// names reports whether the strings within reach of a test with subtests have each part
// of a subtest's name, as tables and t.Run do.
func (f *testFunc) names(subtest string) bool {
	spelled := func(name string) bool {
		return f.strings[name] || f.strings[strings.ReplaceAll(name, "_", " ")]
	}
	if !f.runs {
		return false
	}
	if spelled(subtest) {
		return true
	}
	for i, c := range subtest { // a name may have slashes of its own
		if c == '/' && spelled(subtest[:i]) && f.names(subtest[i+1:]) {
			return true
		}
	}
	return false
}

// The rule finds what a test reaches, and nothing else.
func TestReached(t *testing.T) {
	tests, err := reached(map[string][]byte{
		"a/one_test.go": []byte(`package a

import "testing"

var table = map[string]cell{"in a table": {}, "by a function": {test: helper}}

const constant = "in a constant"

type cell struct {
	tag  string ` + "`json:\"in a tag\"`" + `
	test func()
}

// "in a comment"
func TestOne(t *testing.T) {
	for name := range table {
		t.Run(name, nil)
	}
	t.Run("in the body", nil)
	t.Run(constant, nil)
	other.unused("an argument")
	w.method()
}

func helper() { deeper() }

func TestSkipped(t *testing.T) {
	t.Skip("not today")
	t.Error("never")
}

func TestSkippedAtTimes(t *testing.T) {
	if time.Now().Before(noon) {
		t.Skip("in a hurry")
	}
	t.Log(err.Error(), fmt.Errorf("no %s", "failure"))
}
`),
		"a/two_test.go": []byte(`package a

func deeper() { require.NotEmpty(t, "far away") }

func (world) method() { _ = "in a method" }

func unused() { _ = "in a function that is not called" }

func TestTwo(t *testing.T) { t.Run("of another test", nil) }
`),
		"a/ext_test.go": []byte("package a_test\n\nvar constant = \"of another package\"\n"),
		"a/a.go":        []byte("package a\n\nvar table = \"no test\"\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) != 4 {
		t.Fatalf("%d tests", len(tests))
	}
	one := tests["a.TestOne"]
	for name, want := range map[string]bool{
		"in a table": true, "in_a_table": true, "in the body": true, "in a constant": true, "far away": true,
		"in a method": true, "an argument": true, "in a table/in_the_body": true, "in a table/of another test": false,
		"of another test": false, "in a function that is not called": false, "of another package": false,
		"in a comment": false, "in a tag": false, "no test": false, "in a": false,
	} {
		if got := one.names(name); got != want {
			t.Errorf("TestOne names %q: %t", name, got)
		}
	}
	if tests["a.TestSkippedAtTimes"].names("in a hurry") {
		t.Error("a test without subtests names one")
	}
	for name, want := range map[string]testFunc{
		"a.TestOne": {fails: true}, "a.TestTwo": {}, "a.TestSkipped": {fails: true, skipped: true}, "a.TestSkippedAtTimes": {},
	} {
		if got := tests[name]; got.fails != want.fails || got.skipped != want.skipped {
			t.Errorf("%s: can fail %t, is skipped %t", name, got.fails, got.skipped)
		}
	}
	if _, err := reached(map[string][]byte{"a/a_test.go": []byte("pack age")}); err == nil {
		t.Error("a file that cannot be parsed passes")
	}
}
