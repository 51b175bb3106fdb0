package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines bounds a Go file, and maxFuncLines a function outside tests.
const (
	maxLines     = 450
	maxFuncLines = 60
)

// tables are the functions that return one literal table, by their files. They may be longer.
var tables = map[string][]string{
	"dashboards/gen/sessions.go":      {"sessions"},
	"service/settings.go":             {"ownSettings"},
	"telemetry/catalogue_counters.go": {"counterMetrics"},
	"telemetry/catalogue_replicas.go": {"replicaMetrics"},
	"telemetry/catalogue_state.go":    {"stateMetrics"},
}

// laterNote finds the usual marks of work put off. They are spelled so that this file
// does not find itself.
var laterNote = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// shortForm finds tests that leave something out under -short. Only internal/needs may ask
// for it, because that records what is left out. It is spelled as laterNote is.
var shortForm = []byte("testing.Sh" + "ort()")

func TestFiles(t *testing.T) {
	files := goFiles(t)
	for name, text := range files {
		if strings.HasSuffix(name, ".go") {
			report(t, fileFaults(name, text))
		}
	}
	for name := range tables {
		if _, found := files[name]; !found {
			t.Errorf("%s has a table, and is not there", name)
		}
	}
}

// fileFaults checks the text of one Go file.
func fileFaults(name string, text []byte) []string {
	faults := funcFaults(name, text)
	if n := bytes.Count(text, []byte("\n")); n > maxLines {
		faults = append(faults, fmt.Sprintf("%s has %d lines, %d are allowed: split it, one noun to a file", name, n, maxLines))
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if note := laterNote.Find(line); note != nil {
			faults = append(faults, fmt.Sprintf("%s:%d: %s: do it, or write an issue", name, number, note))
		}
		if bytes.Contains(line, shortForm) && !under(path.Dir(name), "internal/needs") {
			faults = append(faults, fmt.Sprintf("%s:%d: what -short leaves out must be recorded: use needs.Long or needs.Short", name, number))
		}
	}
	return faults
}

// funcFaults returns the functions that are too long, and the tables of the file that are none. The compiler reports what does not parse.
func funcFaults(name string, text []byte) (faults []string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil || strings.HasSuffix(name, "_test.go") {
		return nil
	}
	lines := func(n ast.Node) int {
		return files.PositionFor(n.End(), false).Line - files.PositionFor(n.Pos(), false).Line + 1
	}
	long := slices.Clone(tables[name])
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			ast.Inspect(decl, func(n ast.Node) bool {
				if f, ok := n.(*ast.FuncLit); ok && lines(f) > maxFuncLines {
					faults = append(faults, fmt.Sprintf("%s: a function has %d lines, %d are allowed", name, lines(f), maxFuncLines))
				}
				return true
			})
			continue
		}
		table := slices.Index(long, f.Name.Name)
		switch {
		case lines(f) <= maxFuncLines:
		case table >= 0 && isTable(f.Body.List):
			long = slices.Delete(long, table, table+1)
		default:
			faults = append(faults, fmt.Sprintf("%s: the function %s has %d lines, %d are allowed", name, f.Name.Name, lines(f), maxFuncLines))
		}
	}
	for _, gone := range long {
		faults = append(faults, fmt.Sprintf("%s: %s is no long table: take it from the list", name, gone))
	}
	return faults
}

// isTable reports whether a function does nothing but declare what it needs and return a value.
func isTable(body []ast.Stmt) bool {
	for i, stmt := range body {
		switch stmt := stmt.(type) {
		case *ast.DeclStmt:
		case *ast.AssignStmt:
			if stmt.Tok != token.DEFINE {
				return false
			}
		case *ast.ReturnStmt:
			return i == len(body)-1
		default:
			return false
		}
	}
	return false
}

func TestFileFaults(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("x\n", n) }
	for _, c := range []struct{ name, text, want string }{
		{"a.go", lines(maxLines), ""},
		{"a.go", lines(maxLines + 1), "a.go has 451 lines, 450 are allowed"},
		{"a_test.go", lines(maxLines + 1), "a_test.go has 451 lines, 450 are allowed"},
		{"a.go", "x\n// TO" + "DO(me): later\n", "a.go:2: TO" + "DO: do it"},
		{"a.go", "x // FIX" + "ME", "a.go:1: FIX" + "ME"},
		{"a_test.go", "// XX" + "X", "a_test.go:1"},
		{"a.go", "XX" + "XX and TO" + "DOS are words of their own", ""},
		{"a_test.go", "if testing.Sh" + "ort() {", "a_test.go:1: what -short leaves out"},
		{"internal/needs/a.go", "if testing.Sh" + "ort() {", ""},
	} {
		got := strings.Join(fileFaults(c.name, []byte(c.text)), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s, %.30q: got %q, want %q", c.name, c.text, got, c.want)
		}
	}
}

func TestFuncFaults(t *testing.T) {
	function := func(name string, lines int) string {
		return "func " + name + "() {\n" + strings.Repeat("\n", lines-2) + "}\n"
	}
	table := func(name string, lines int) string {
		return "func " + name + "() []int {\na := 1\nreturn []int{a," + strings.Repeat("\n", lines-4) + "}\n}\n"
	}
	const settings = "service/settings.go"
	for _, c := range []struct{ name, text, want string }{
		{"a.go", function("f", maxFuncLines), ""},
		{"a.go", function("f", maxFuncLines) + function("g", maxFuncLines+1), "a.go: the function g has 61 lines, 60 are allowed"},
		{"a.go", "//line a.go:1\nfunc f() {\n//line a.go:1\n" + strings.Repeat("\n", maxFuncLines) + "}\n", "the function f"},
		{"a.go", "var f = func() {" + strings.Repeat("\n", maxFuncLines-1) + "}\n", ""},
		{"a.go", "var f = func() {" + strings.Repeat("\n", maxFuncLines) + "}\n", "a.go: a function has 61 lines"},
		{"a_test.go", function("f", maxFuncLines+1), ""},
		{settings, table("ownSettings", maxFuncLines+1), ""},
		{settings, table("ownSettings", maxFuncLines+1) + function("f", maxFuncLines+1), "the function f"},
		{settings, table("ownSettings", maxFuncLines), "service/settings.go: ownSettings is no long table"},
		{settings, function("ownSettings", maxFuncLines+1), "the function ownSettings has 61 lines"},
	} {
		got := strings.Join(funcFaults(c.name, []byte("package p\n"+c.text)), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
