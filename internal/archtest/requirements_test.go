package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
// exists, can fail and is not skipped.
func requirementFaults(rows []requirement, tests map[string]*testFunc) (faults []string) {
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
			if wrong := testNameFault(name, tests); wrong != "" {
				fault("%s", wrong)
			}
		}
	}
	return faults
}

// testNameFault returns what is wrong with the name of a test on a page, or "".
func testNameFault(name string, tests map[string]*testFunc) string {
	m := testName.FindStringSubmatch(name)
	if m == nil {
		return name + " is no name of a test"
	}
	switch test := tests[m[1]+"."+m[2]]; {
	case test == nil:
		return "there is no test " + name
	case m[3] != "" && !test.names(m[3]):
		return fmt.Sprintf("test %s.%s names no subtest %q", m[1], m[2], m[3])
	case test.skipped:
		return fmt.Sprintf("test %s.%s is always skipped", m[1], m[2])
	case !test.fails:
		return fmt.Sprintf("nothing can fail the test %s.%s", m[1], m[2])
	}
	return ""
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
	tests, err := reached(goFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	report(t, requirementFaults(rows, tests))
}

// The rule finds each fault.
func TestRequirementFaults(t *testing.T) {
	tests, err := reached(map[string][]byte{"server/tools_test.go": []byte(`package server_test

func TestTools(t *testing.T) {
	t.Run("unknown tool", func(t *testing.T) { t.Error("known") })
}

func TestPrompts(t *testing.T) {
	t.Run("unknown prompt", func(t *testing.T) {})
}

func TestLater(t *testing.T) {
	t.Skip()
	t.Error("never")
}
`)})
	if err != nil {
		t.Fatal(err)
	}
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
		{"| Tools | MUST | refuse unknown tools | `server.TestTools/unknown prompt` |", "names no subtest"},
		{"| Tools | MUST | refuse unknown tools | `server.TestTools/unknown` |", "names no subtest"},
		{"| Tools | MUST | refuse unknown tools | `server.TestPrompts/unknown prompt` |", "nothing can fail"},
		{"| Tools | MUST | refuse unknown tools | `server.TestTools`, `server.TestLater` |", "always skipped"},
		{"| Tools | MUST | refuse unknown tools | by hand |", "is no name"},
	} {
		faults := requirementFaults(requirements(c.row), tests)
		switch {
		case c.want == "" && len(faults) > 0, c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], c.want)):
			t.Errorf("%s: got %q, want %q", c.row, faults, c.want)
		}
	}
}
