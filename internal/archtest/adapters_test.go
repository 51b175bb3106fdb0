package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// adaptersPage says what each adapter for another SDK can know.
const adaptersPage = "docs/adapters.md"

// adapterFolders are those of the columns of its table, behind what a row is about and our
// own server.
var adapterFolders = []string{"adapters/gosdk", "adapters/mcpgo"}

var quotedTest = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")

// adapterFaults checks that each cell of an adapter says yes or no, that each yes names a test,
// and that all tests that are named exist and can fail.
func adapterFaults(page string, tests map[string]*testFunc) (rows int, faults []string) {
	for i, line := range strings.Split(page, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| What ") {
			continue
		}
		rows++
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("%s:%d: ", adaptersPage, i+1)+fmt.Sprintf(format, args...))
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if len(cells) != 2+len(adapterFolders) {
			fault("a row has %d cells", 2+len(adapterFolders))
			continue
		}
		for column, folder := range adapterFolders {
			cell := strings.TrimSpace(cells[2+column])
			named := quotedTest.FindAllStringSubmatch(cell, -1)
			switch yes := strings.HasPrefix(cell, "yes"); {
			case !yes && cell != "no" && !strings.HasPrefix(cell, "no: "):
				fault("%q says neither yes nor no", cell)
			case yes && len(named) == 0:
				fault("%q names no test", cell)
			}
			for _, m := range named {
				switch test := tests[folder+"."+m[1]]; {
				case test == nil:
					fault("there is no test %s.%s", folder, m[1])
				case test.skipped:
					fault("test %s.%s is always skipped", folder, m[1])
				case !test.fails:
					fault("nothing can fail the test %s.%s", folder, m[1])
				}
			}
		}
	}
	return rows, faults
}

func TestAdapters(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(moduleRoot(t), adaptersPage))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := reached(goFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	rows, faults := adapterFaults(string(page), tests)
	if rows < 30 {
		t.Errorf("%s has %d rows: is it read correctly?", adaptersPage, rows)
	}
	report(t, faults)
}

// The rule finds each fault.
func TestAdapterFaults(t *testing.T) {
	tests, err := reached(map[string][]byte{
		"adapters/gosdk/a_test.go": []byte("package a\n\nfunc TestSpans(t *testing.T) { t.Error(1) }\n\nfunc TestLater(t *testing.T) { t.Skip(); t.Error(1) }\n"),
		"adapters/mcpgo/a_test.go": []byte("package a\n\nfunc TestSpans(t *testing.T) { t.Error(1) }\n\nfunc TestIdle(t *testing.T) {}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for row, want := range map[string]string{
		"| Spans | yes | yes: `TestSpans` | yes: `TestSpans`, over HTTP |": "",
		"| Spans | yes | no | no: it has none |":                           "",
		"| What | Our server | Go SDK | mcp-go |":                          "",
		"| Spans | yes | no |":                                             "a row has 4 cells",
		"| Spans | yes | yes | no |":                                       "names no test",
		"| Spans | yes | maybe | no |":                                     "neither yes nor no",
		"| Spans | yes | yes: `TestSpans` | yes: `TestOther` |":            "there is no test adapters/mcpgo.TestOther",
		"| Spans | yes | no: see `TestOther` | no |":                       "there is no test adapters/gosdk.TestOther",
		"| Spans | yes | yes: `TestLater` | no |":                          "is always skipped",
		"| Spans | yes | no | yes: `TestIdle` |":                           "nothing can fail",
	} {
		_, faults := adapterFaults(row, tests)
		if want == "" && len(faults) > 0 || want != "" && (len(faults) != 1 || !strings.Contains(faults[0], want)) {
			t.Errorf("%s: got %q, want %q", row, faults, want)
		}
	}
}
