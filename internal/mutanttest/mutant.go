// Package mutanttest changes the code for a test that must notice it. It is for tests only.
package mutanttest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Mutant is a defect of the code: a change of one file, which is made by an overlay when a test is compiled.
type Mutant struct {
	Name     string
	File     string // from the folder of the test
	Test     string // that notices it; may be ""
	old, new string
}

// Read reads testdata/mutants. The head of a file has what it is about, and lines "file: " and "test: ". The old and the new
// text follow.
func Read(t testing.TB) (all []Mutant) {
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
		m := Mutant{Name: strings.TrimSuffix(filepath.Base(path), ".txt"), old: before, new: after}
		for line := range strings.Lines(head) {
			switch key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); key {
			case "file":
				m.File = value
			case "test":
				m.Test = value
			}
		}
		require.NotEmpty(t, m.File, "%s names no file", path)
		all = append(all, m)
	}
	return all
}

// Apply fails the test if the code has moved away from a mutant: bring it along.
func Apply(t testing.TB, all []Mutant) {
	t.Helper()
	for _, m := range all {
		m.code(t)
	}
}

// code returns the code that the mutant changes.
func (m *Mutant) code(t testing.TB) string {
	t.Helper()
	code, err := os.ReadFile(m.File)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(code), m.old), "the old text of mutant %s in %s", m.Name, m.File)
	return string(code)
}

// Compile compiles the tests of the package in the present folder, with a mutant unless that is nil.
func Compile(t testing.TB, m *Mutant) (program string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "mutant.test")
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program}
	if m != nil {
		changed, path := filepath.Join(dir, filepath.Base(m.File)), filepath.Join(dir, "overlay.json")
		require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(m.code(t), m.old, m.new, 1)), 0o600))
		original, err := filepath.Abs(m.File)
		require.NoError(t, err)
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, overlay, 0o600))
		args = append(args, "-overlay", path)
	}
	out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
