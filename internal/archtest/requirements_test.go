package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// requirementsPage lists what the specification demands of servers, with the tests
// that hold each demand.
const requirementsPage = "docs/requirements.md"

// A requirement is one row of the page.
type requirement struct {
	line                  int
	section, level, words string
	tests                 []string
}

// testName is a test as the page writes it: folder of the package, name, and the name
// of a subtest, as in "transport.TestRefusedExchanges/Origin".
var testName = regexp.MustCompile("^`([a-z0-9_/]+)\\.(Test[A-Za-z0-9_]+)(?:/([^`]+))?`$")

// requirements reads the rows of the page's tables.
func requirements(page string) (rows []requirement) {
	for i, line := range strings.Split(page, "\n") {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || strings.HasPrefix(line, "| Section") {
			continue
		}
		for len(cells) < 4 {
			cells = append(cells, "")
		}
		r := requirement{line: i + 1, section: strings.TrimSpace(cells[0]), level: strings.TrimSpace(cells[1]), words: strings.TrimSpace(cells[2])}
		for name := range strings.SplitSeq(cells[3], ",") {
			if name = strings.TrimSpace(name); name != "" {
				r.tests = append(r.tests, name)
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// requirementFaults checks that each row has a section, a level and a test that
// exists. tests holds the test functions by folder and name, with their source.
func requirementFaults(rows []requirement, tests map[string]string) (faults []string) {
	for _, r := range rows {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("%s:%d: ", requirementsPage, r.line)+fmt.Sprintf(format, args...))
		}
		if r.section == "" || r.words == "" {
			fault("a row has a section, a level, words and tests")
		}
		if !slices.Contains([]string{"MUST", "MUST NOT", "SHOULD", "SHOULD NOT"}, r.level) {
			fault("%q is no level", r.level)
		}
		if len(r.tests) == 0 {
			fault("no test: %s", r.words)
		}
		for _, name := range r.tests {
			m := testName.FindStringSubmatch(name)
			if m == nil {
				fault("%s is no name of a test", name)
				continue
			}
			if source, known := tests[m[1]+"."+m[2]]; !known {
				fault("there is no test %s", name)
			} else if m[3] != "" && !names(source, m[3]) {
				fault("test %s.%s names no subtest %q", m[1], m[2], m[3])
			}
		}
	}
	return faults
}

// names reports whether the source of a package's tests has each part of a subtest's
// name as a string, as tables and t.Run do.
func names(source, subtest string) bool {
	spelled := func(name string) bool {
		return strings.Contains(source, strconv.Quote(strings.ReplaceAll(name, "_", " "))) || strings.Contains(source, strconv.Quote(name))
	}
	if spelled(subtest) {
		return true
	}
	for i, c := range subtest { // a name may have slashes of its own
		if c == '/' && spelled(subtest[:i]) && names(source, subtest[i+1:]) {
			return true
		}
	}
	return false
}

// testFunctions finds the tests of the repository, with the source of all tests of their package.
func testFunctions(t *testing.T) map[string]string {
	found, sources := map[string][]string{}, map[string]string{}
	for name, text := range goFiles(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		dir := path.Dir(name)
		sources[dir] += string(text)
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				found[dir] = append(found[dir], f.Name.Name)
			}
		}
	}
	tests := map[string]string{}
	for dir, list := range found {
		for _, name := range list {
			tests[dir+"."+name] = sources[dir]
		}
	}
	return tests
}

func TestEveryRequirementHasATest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(moduleRoot(t), requirementsPage))
	if err != nil {
		t.Fatal(err)
	}
	rows := requirements(string(page))
	if len(rows) < 100 {
		t.Errorf("%s has %d rows: is it read correctly?", requirementsPage, len(rows))
	}
	for _, fault := range requirementFaults(rows, testFunctions(t)) {
		t.Error(fault)
	}
}

// The check itself is seen failing.
func TestRequirementFaults(t *testing.T) {
	tests := map[string]string{"server.TestTools": `t.Run("unknown tool")`}
	for _, c := range []struct{ row, want string }{
		{"| Tools | MUST | refuse unknown tools | `server.TestTools/unknown tool` |", ""},
		{"| Tools | MUST | refuse unknown tools | `server.TestTools`, `server.TestTools/unknown_tool` |", ""},
		{"| Tools | MAY | refuse unknown tools | `server.TestTools` |", "no level"},
		{"| Tools | MUST | refuse unknown tools | |", "no test"},
		{"| Tools | MUST | refuse unknown tools |", "no test"},
		{"| | MUST | refuse unknown tools | `server.TestTools` |", "a row has"},
		{"| Tools | MUST | refuse unknown tools | `server.TestOther` |", "there is no test"},
		{"| Tools | MUST | refuse unknown tools | `mcp.TestTools` |", "there is no test"},
		{"| Tools | MUST | refuse unknown tools | `server.TestTools/other` |", "names no subtest"},
		{"| Tools | MUST | refuse unknown tools | by hand |", "is no name"},
	} {
		faults := requirementFaults(requirements(c.row), tests)
		switch {
		case c.want == "" && len(faults) > 0, c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], c.want)):
			t.Errorf("%s: got %q, want %q", c.row, faults, c.want)
		}
	}
}
