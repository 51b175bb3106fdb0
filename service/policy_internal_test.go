package service

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Telemetry says that the present file of rules is not in use, until it is in order again.
func TestMistakeInTheRulesIsReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("default: deny\n")
	changed := 0
	p, err := newPolicy(PolicyConfig{File: file}, func(string) {}, func() { changed++ })
	require.NoError(t, err)
	check := func(loaded, failed uint64, stale bool) {
		t.Helper()
		state := policySource{p}.Snapshot().Policy
		require.Equal(t, []any{loaded, failed, stale}, []any{state.Loaded, state.Failed, state.Stale})
	}
	check(0, 0, false)

	write("default: maybe\n")
	require.Error(t, p.Reload())
	check(0, 1, true)
	require.Zero(t, changed)

	write("default: allow\n")
	require.NoError(t, p.Reload())
	check(1, 1, false)
	require.Equal(t, 1, changed, "clients list again")
}
