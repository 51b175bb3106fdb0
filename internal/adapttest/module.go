package adapttest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shown requires that each line of Go code in a README is in a program.
func Shown(t testing.TB, readme, program string) {
	t.Helper()
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	source, err := os.ReadFile(program)
	require.NoError(t, err)
	lines := map[string]bool{}
	for line := range strings.Lines(string(source)) {
		lines[strings.TrimSpace(line)] = true
	}
	shown := 0
	for i, block := range strings.Split(string(text), "```") {
		code, isGo := strings.CutPrefix(block, "go\n")
		if i%2 == 0 || !isGo {
			continue
		}
		for line := range strings.Lines(code) {
			if line = strings.TrimSpace(line); line != "" {
				require.True(t, lines[line], "%s shows %q, which is not in %s", readme, line, program)
				shown++
			}
		}
	}
	require.NotZero(t, shown, "the README shows nothing")
}

// LinksNone requires that the module in the current folder links no package below a path.
func LinksNone(t testing.TB, path string) {
	t.Helper()
	deps, err := exec.Command("go", "list", "-deps", "./...").CombinedOutput()
	require.NoError(t, err, string(deps))
	for dep := range strings.Lines(string(deps)) {
		dep = strings.TrimSpace(dep)
		require.False(t, dep == path || strings.HasPrefix(dep, path+"/"), dep)
	}
}
