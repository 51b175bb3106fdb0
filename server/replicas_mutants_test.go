package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A replicaMutant is a defect of the code that several replicas need: a change of one file, which TestReplicasModel must
// notice. It is made by an overlay when the test is compiled.
type replicaMutant struct{ name, file, old, new string }

// replicaMutants reads testdata/mutants.
func replicaMutants(t *testing.T) (all []replicaMutant) {
	t.Helper()
	paths, err := filepath.Glob("testdata/mutants/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		head, change, ok1 := strings.Cut(string(text), "\n-- old --\n")
		before, after, ok2 := strings.Cut(change, "-- new --\n")
		require.True(t, ok1 && ok2, "%s has no old or no new text", path)
		_, file, ok3 := strings.Cut(head, "\nfile: ")
		require.True(t, ok3, "%s names no file", path)
		all = append(all, replicaMutant{strings.TrimSuffix(filepath.Base(path), ".txt"), file, before, after})
	}
	return all
}

// TestReplicaMutantsApply fails when the code has moved away from a mutant: bring it along.
func TestReplicaMutantsApply(t *testing.T) {
	for _, m := range replicaMutants(t) {
		code, err := os.ReadFile(m.file)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(code), m.old), "the old text of mutant %s in %s", m.name, m.file)
	}
}

// TestReplicaMutants shows that the model of replicas notices one mutant; with VITRINE_MUTANTS=all (make mutants) all of them.
func TestReplicaMutants(t *testing.T) {
	mutants := replicaMutants(t)
	if os.Getenv("VITRINE_MUTANTS") != "all" {
		needs.Long(t, "server/mutants of replicas")
		mutants = slices.DeleteFunc(mutants, func(m replicaMutant) bool { return m.name != "earlier-run-stores-its-result" })
	}
	require.NotEmpty(t, mutants)
	var table strings.Builder
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			seed, took, why := m.notice(t)
			_, _ = fmt.Fprintf(&table, "%-45s seed %4s %8s  %s\n", m.name, seed, took, why)
		})
	}
	t.Logf("\n%s", table.String())
}

var (
	failedSeed = regexp.MustCompile(`(?m)replicas_model_test.go:\d+: seed (\d+):$`)
	failedFor  = regexp.MustCompile(`(?m)^--- FAIL: TestReplicasModel \((.*)\)$`)
	failedWhy  = regexp.MustCompile(`(?m)^\s+(?:Messages|Error):\s+(.*)$`)
)

// notice runs the model with a mutant, which must fail. It returns the seed, how long that took, and the message.
func (m replicaMutant) notice(t *testing.T) (seed, took, why string) {
	t.Helper()
	dir := t.TempDir()
	code, err := os.ReadFile(m.file)
	require.NoError(t, err)
	changed := filepath.Join(dir, filepath.Base(m.file))
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(code), m.old, m.new, 1)), 0o600))
	original, err := filepath.Abs(m.file)
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	require.NoError(t, err)
	path, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "model.test")
	require.NoError(t, os.WriteFile(path, overlay, 0o600))
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", path, "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program, "-test.run", "^TestReplicasModel$", "-test.timeout", "10m", "-replicas", "3m").CombinedOutput()
	require.Error(t, err, "the model does not notice %s", m.name)
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	at, lasted := failedSeed.FindSubmatch(out), failedFor.FindSubmatch(out)
	require.True(t, at != nil && lasted != nil, "%s", out)
	for _, line := range failedWhy.FindAllSubmatch(out, 2) {
		why += " " + string(line[1])
	}
	return string(at[1]), string(lasted[1]), why
}
