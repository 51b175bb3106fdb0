package server_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/mutanttest"
	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// TestReplicaMutantsApply fails when the code has moved away from a mutant: bring it along.
func TestReplicaMutantsApply(t *testing.T) { mutanttest.Apply(t, mutanttest.Read(t)) }

// TestReplicaMutants shows that the model of replicas notices one mutant; with VITRINE_MUTANTS=all (make mutants) all of them. A
// mutant that the model reaches too seldom names the test that notices it.
func TestReplicaMutants(t *testing.T) {
	mutants := mutanttest.Read(t)
	if os.Getenv("VITRINE_MUTANTS") != "all" {
		needs.Long(t, "server/mutants of replicas")
		mutants = slices.DeleteFunc(mutants, func(m mutanttest.Mutant) bool { return m.Name != "earlier-run-stores-its-result" })
	}
	require.NotEmpty(t, mutants)
	var table strings.Builder
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			seed, took, why := noticeMutant(t, &m)
			_, _ = fmt.Fprintf(&table, "%-45s seed %4s %8s  %s\n", m.Name, seed, took, why)
		})
	}
	t.Logf("\n%s", table.String())
}

var (
	failedSeed = regexp.MustCompile(`(?m)replicas_model_test.go:\d+: seed (\d+):$`)
	failedFor  = regexp.MustCompile(`(?m)^--- FAIL: TestReplicasModel \((.*)\)$`)
	failedWhy  = regexp.MustCompile(`(?m)^\s+(?:Messages|Error):\s+(.*)$`)
)

// noticeMutant runs the model with a mutant, which must fail. It returns the seed, how long that took, and the message; for a mutant
// that names a test only the name.
func noticeMutant(t *testing.T, m *mutanttest.Mutant) (seed, took, why string) {
	t.Helper()
	if m.Test != "" {
		out, err := exec.Command(mutanttest.Compile(t, m), "-test.run", "^"+m.Test+"$", "-test.timeout", "10m").CombinedOutput()
		require.Error(t, err, "%s does not notice %s", m.Test, m.Name)
		require.Contains(t, string(out), "--- FAIL: "+m.Test)
		return "", "", m.Test
	}
	out, err := exec.Command(mutanttest.Compile(t, m), "-test.run", "^TestReplicasModel$", "-test.timeout", "10m", "-replicas", "3m").CombinedOutput()
	require.Error(t, err, "the model does not notice %s", m.Name)
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	at, lasted := failedSeed.FindSubmatch(out), failedFor.FindSubmatch(out)
	require.True(t, at != nil && lasted != nil, "%s", out)
	for _, line := range failedWhy.FindAllSubmatch(out, 2) {
		why += " " + string(line[1])
	}
	return string(at[1]), string(lasted[1]), why
}
