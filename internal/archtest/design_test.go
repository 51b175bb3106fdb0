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

// A designRow is a row of the table of layers in docs/design.md.
var designRow = regexp.MustCompile(`(?m)^\| (\d) \| ([^|]+) \|`)

// maxDesignLines bounds docs/design.md, which a newcomer reads at once.
const maxDesignLines = 250

// The table of layers in docs/design.md is the table of areas.
func TestDesignListsPackages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs", "design.md"))
	if err != nil {
		t.Fatal(err)
	}
	report(t, designFaults(string(text), areas))
}

func designFaults(text string, areas []area) (faults []string) {
	if n := strings.Count(text, "\n"); n > maxDesignLines {
		faults = append(faults, fmt.Sprintf("docs/design.md has %d lines, %d are allowed: details have pages of their own", n, maxDesignLines))
	}
	var written, wanted []string
	for _, row := range designRow.FindAllStringSubmatch(text, -1) {
		for cell := range strings.SplitSeq(row[2], ",") {
			written = append(written, row[1]+" "+strings.TrimSpace(cell))
		}
	}
	for _, r := range areas {
		wanted = append(wanted, fmt.Sprintf("%d `%s/`", r.layer, r.path))
	}
	for _, w := range wanted {
		if !slices.Contains(written, w) {
			faults = append(faults, "docs/design.md does not list layer and package "+w)
		}
	}
	for _, w := range written {
		if !slices.Contains(wanted, w) {
			faults = append(faults, "docs/design.md lists layer and package "+w+", which internal/archtest does not know")
		}
	}
	return faults
}

// The rule finds each fault.
func TestDesignFaults(t *testing.T) {
	areas := []area{{path: "a", layer: 1}, {path: "b/c", layer: 0}}
	for text, want := range map[string]int{
		"| 1 | `a/` | x |\n| 0 | `b/c/` | y |\n":                                          0,
		"| 1 | `a/` | x |\n| 0 | `b/c/` | y |\n" + strings.Repeat("\n", maxDesignLines-2): 0,
		"| 1 | `a/` | x |\n| 0 | `b/c/` | y |\n" + strings.Repeat("\n", maxDesignLines-1): 1,
		"| 1 | `a/`, `b/c/` | x |\n":                                                      2,
		"| 1 | `a/` | x |\n":                                                              1,
		"| 1 | `a/`, `d/` | x |\n| 0 | `b/c/` |":                                          1,
	} {
		if faults := designFaults(text, areas); len(faults) != want {
			t.Errorf("%q: %q", text, faults)
		}
	}
}
