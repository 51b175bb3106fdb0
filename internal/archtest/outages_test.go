package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// outagesPage has the table of what holds while the store of the replicas is away, and when it is back. Each
// row names the tests that hold it.
const (
	outagesPage    = "docs/replicas.md"
	outagesHeading = "## When the store is away"
)

// outageFaults checks that each row of the table has four cells, of which the last one names tests that exist,
// can fail and are not skipped. It also returns the number of rows.
func outageFaults(page string, tests map[string]*testFunc) (faults []string, rows int) {
	_, section, _ := strings.Cut(page, outagesHeading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.SplitSeq(section, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || strings.HasPrefix(line, "| | ") {
			continue
		}
		rows++
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
		row := strings.TrimSpace(cells[0])
		if len(cells) != 4 || strings.TrimSpace(cells[3]) == "" {
			faults = append(faults, fmt.Sprintf("%s: no test: %s", outagesPage, row))
			continue
		}
		for name := range strings.SplitSeq(cells[3], ",") {
			if wrong := testNameFault(strings.TrimSpace(name), tests); wrong != "" {
				faults = append(faults, fmt.Sprintf("%s: %s: %s", outagesPage, row, wrong))
			}
		}
	}
	return faults, rows
}

func TestEveryRowOfAnOutageHasATest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(moduleRoot(t), outagesPage))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := reached(goFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	faults, rows := outageFaults(string(page), tests)
	if rows < 15 {
		t.Errorf("%s has %d rows: is it read correctly?", outagesPage, rows)
	}
	report(t, faults)
}

// The rule finds each fault.
func TestOutageFaults(t *testing.T) {
	tests, err := reached(map[string][]byte{"server/away_test.go": []byte(`package server_test

func TestAway(t *testing.T) { t.Error("away") }
`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ row, want string }{
		{"| calls | work | | `server.TestAway` |", ""},
		{"| calls | work | work | `server.TestAway`, `server.TestBack` |", "there is no test"},
		{"| calls | work | work | |", "no test: calls"},
		{"| calls | work | work |", "no test: calls"},
		{"| calls | work | work | by hand |", "is no name"},
	} {
		page := outagesHeading + "\n\n| | away | back | Tests |\n|---|---|---|---|\n" + c.row + "\n\n## Else\n\n| calls |\n"
		faults, rows := outageFaults(page, tests)
		switch {
		case rows != 1:
			t.Errorf("%s: %d rows were read, want 1", c.row, rows)
		case c.want == "" && len(faults) > 0, c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0], c.want)):
			t.Errorf("%s: got %q, want %q", c.row, faults, c.want)
		}
	}
}
