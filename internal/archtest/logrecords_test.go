package archtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recordFaults compares a page's table of log records with what the code writes. A
// level or a key that is not a literal in the code is not found there, so that the page
// may have more of them.
func recordFaults(page string, written map[string]*logRecord) (faults []string) {
	listed := map[string]bool{}
	_, table, _ := strings.Cut(page, "\n| Record |")
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 4 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		name := strings.Trim(cells[0], "`")
		record := written[name]
		if listed[name] = true; record == nil {
			faults = append(faults, fmt.Sprintf("nothing writes the record %q", name))
			continue
		}
		for _, level := range record.levels {
			if cells[1] != "any" && !slices.Contains(strings.Split(cells[1], ", "), level) {
				faults = append(faults, fmt.Sprintf("record %q: level %s is not listed", name, level))
			}
		}
		for _, key := range record.keys {
			if !slices.Contains(strings.Split(cells[2], ", "), key) {
				faults = append(faults, fmt.Sprintf("record %q: attribute %s is not listed", name, key))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(written)) {
		if !listed[name] {
			faults = append(faults, fmt.Sprintf("record %q of %s is not listed", name, written[name].places[0]))
		}
	}
	return faults
}

// writtenRecords finds what the packages for users write to the log.
func writtenRecords(t *testing.T) map[string]*logRecord {
	written := map[string]*logRecord{}
	for name, source := range goFiles(t) {
		top, _, _ := strings.Cut(name, "/")
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			slices.Contains([]string{"e2e", "examples", "cmd", "bench"}, top) {
			continue
		}
		if err := logRecords(name, source, written); err != nil {
			t.Fatal(err)
		}
	}
	return written
}

func TestLogRecordsAreListed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs/telemetry.md"))
	if err != nil {
		t.Fatal(err)
	}
	written := writtenRecords(t)
	if len(written) < 50 {
		t.Errorf("only %d records found: is the code read correctly?", len(written))
	}
	report(t, recordFaults(string(page), written))
}

// The rule finds each fault.
func TestRecordFaults(t *testing.T) {
	written := map[string]*logRecord{}
	const source = `package x
func f() {
	l.Info("a.one", "k", 1, "l", 2)
	l.WarnContext(ctx, "a.one", append(r.logAttrs(), "m", 3)...)
	l.LogAttrs(ctx, level, "a.two", slog.String("s", v))
	l.Error("not a record")
	other.Do("a.three")
}`
	if err := logRecords("x.go", []byte(source), written); err != nil {
		t.Fatal(err)
	}
	const head = "\n| Record | Level | Attributes | What |\n|---|---|---|---|\n"
	for page, want := range map[string]int{
		head + "| `a.one` | info, warn | k, l, …, m | x |\n| `a.two` | any | s | x |\n":                      0,
		head + "| `a.one` | info | k, l, …, m | x |\n| `a.two` | any | s | x |\n":                            1,
		head + "| `a.one` | info, warn | k, …, m | x |\n| `a.two` | any | s, t | x |\n":                      1,
		head + "| `a.one` | info, warn | k, l, …, m | x |\n":                                                 1,
		head + "| `a.one` | info, warn | k, l, …, m | x |\n| `a.two` | any | s | x |\n| `b` | any | s | x |": 1,
		"": 2,
	} {
		if got := recordFaults(page, written); len(got) != want {
			t.Errorf("%s\ngot %q, want %d", page, got, want)
		}
	}
}
