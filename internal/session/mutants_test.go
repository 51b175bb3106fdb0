package session

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/mutanttest"
	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// mutants returns the bugs of the original report, put back into the code, with the race that must notice each. Production
// files carry no switches.
func mutants(t *testing.T) (all []mutanttest.Mutant) {
	t.Helper()
	all = mutanttest.Read(t)
	require.Len(t, all, 4)
	for _, m := range all {
		require.NotEmpty(t, m.Test, "mutant %s names no race", m.Name)
	}
	return all
}

// TestMutantsApply fails when the code has moved away from a mutant: bring it along.
func TestMutantsApply(t *testing.T) { mutanttest.Apply(t, mutants(t)) }

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
		healthy = mutanttest.Compile(t, nil)
	}
	for _, m := range mutants(t) {
		noticed, passed := 0, 0
		program := mutanttest.Compile(t, &m)
		for range with {
			if !passes(t, program, m.Test) {
				noticed++
			}
		}
		for range without {
			if passes(t, healthy, m.Test) {
				passed++
			}
		}
		_, _ = fmt.Fprintf(&table, "%-30s with: fails %d of %d   without: passes %d of %d\n", m.Name, noticed, with, passed, without)
		require.Equal(t, with, noticed, "%s is not noticed by %s", m.Name, m.Test)
		require.Equal(t, without, passed, "%s fails without %s", m.Test, m.Name)
	}
	t.Logf("\n%s", table.String())
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
