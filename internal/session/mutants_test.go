package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A mutant is one of the bugs of the original report, put back into the code: a
// change of one file, and the race that must notice it. Production files carry no
// switches; the change is made by an overlay when the test is compiled.
type mutant struct {
	name, file, test, old, new string
}

// mutants reads testdata/mutants.
func mutants(t *testing.T) (all []mutant) {
	t.Helper()
	files, err := filepath.Glob("testdata/mutants/*.txt")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		head, change, ok1 := strings.Cut(string(text), "\n-- old --\n")
		before, after, ok2 := strings.Cut(change, "-- new --\n")
		require.True(t, ok1 && ok2, "%s has no old or no new text", path)
		m := mutant{name: strings.TrimSuffix(filepath.Base(path), ".txt"), old: before, new: after}
		for line := range strings.Lines(head) {
			switch key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); key {
			case "file":
				m.file = value
			case "test":
				m.test = value
			}
		}
		require.True(t, m.file != "" && m.test != "", "%s names no file or no test", path)
		all = append(all, m)
	}
	return all
}

// TestMutantsApply fails when the code has moved away from a mutant: bring it along.
func TestMutantsApply(t *testing.T) {
	for _, m := range mutants(t) {
		code, err := os.ReadFile(m.file)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(code), m.old), "the old text of mutant %s in %s", m.name, m.file)
	}
}

// TestMutants shows that the races notice the old bugs. It runs each mutant once; VITRINE_MUTANTS=all (make mutants) runs each twenty times, the
// healthy code fifty times, and prints the table.
func TestMutants(t *testing.T) {
	with, without := 1, 0
	if os.Getenv("VITRINE_MUTANTS") == "all" {
		with, without = 20, 50
	} else {
		needs.Long(t, "session/mutants")
	}
	var table strings.Builder
	healthy := ""
	if without > 0 {
		healthy = compile(t, "healthy", nil)
	}
	for _, m := range mutants(t) {
		noticed, passed := 0, 0
		program := compile(t, m.name, &m)
		for range with {
			if !passes(t, program, m.test) {
				noticed++
			}
		}
		for range without {
			if passes(t, healthy, m.test) {
				passed++
			}
		}
		_, _ = fmt.Fprintf(&table, "%-30s with: fails %d of %d   without: passes %d of %d\n", m.name, noticed, with, passed, without)
		require.Equal(t, with, noticed, "%s is not noticed by %s", m.name, m.test)
		require.Equal(t, without, passed, "%s fails without %s", m.test, m.name)
	}
	t.Logf("\n%s", table.String())
}

// compile builds the package's test, with a mutant if there is one.
func compile(t *testing.T, name string, m *mutant) (program string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, name+".test")
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program}
	if m != nil {
		code, err := os.ReadFile(m.file)
		require.NoError(t, err)
		require.Contains(t, string(code), m.old, "%s does not apply to %s", m.name, m.file)
		changed := filepath.Join(dir, filepath.Base(m.file))
		require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(code), m.old, m.new, 1)), 0o600))
		original, err := filepath.Abs(m.file)
		require.NoError(t, err)
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
		require.NoError(t, err)
		path := filepath.Join(dir, "overlay.json")
		require.NoError(t, os.WriteFile(path, overlay, 0o600))
		args = append(args, "-overlay", path)
	}
	out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// passes runs one race. Anything but a pass or a failure of that race fails the test:
// a mutant that crashes has not been noticed.
func passes(t *testing.T, program, test string) bool {
	t.Helper()
	out, err := exec.Command(program, "-schedules", "1000", "-test.run", test, "-test.v", "-test.timeout", "2m").CombinedOutput()
	if err == nil {
		require.Contains(t, string(out), "--- PASS: TestRace/", "no race has run")
		return true
	}
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	require.Contains(t, string(out), "--- FAIL: TestRace/", "%s", out)
	require.NotContains(t, string(out), "\npanic: ", "%s", out)
	return false
}
