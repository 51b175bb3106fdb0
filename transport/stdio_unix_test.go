//go:build unix

package transport_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/session/sessiontest"
	"github.com/vitrine-mcp/vitrine/transport"
)

// What a handler prints goes to standard error: standard output carries messages and
// nothing else (specification: "stdio").
func TestStdioKeepsPrintsOffTheWire(t *testing.T) {
	const child = "VITRINE_TEST_STDIO_CHILD"
	if os.Getenv(child) != "" {
		f := newFake(t, session.Limits{})
		require.NoError(t, transport.ServeStdio(t.Context(), f.Core))
		os.Exit(0) // before the testing package prints its verdict
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStdioKeepsPrintsOffTheWire$")
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.Stdin = strings.NewReader(modern(1, "print") + "\n" + modern(2, "echo") + "\n")
	var out, diagnostics strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &diagnostics
	require.NoError(t, cmd.Run(), "%s", &diagnostics)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.ElementsMatch(t, []string{answer(1, "print"), answer(2, "echo")}, lines)
	require.Contains(t, diagnostics.String(), fmt.Sprintln(sessiontest.StrayPrint))
}
