//go:build unix

package transport_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/transport"
)

// inChild runs a function in a process of its own, with its own standard files, and returns
// what the process has written to standard output and to standard error.
func inChild(t *testing.T, input string, run func(t *testing.T)) (out, diagnostics string) {
	t.Helper()
	const child = "VITRINE_TEST_STDIO_CHILD"
	if os.Getenv(child) != "" {
		run(t)
		os.Exit(0) // before the testing package prints its verdict
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s", &stderr)
	return stdout.String(), stderr.String()
}

// What the process prints goes to standard error: standard output carries frames and nothing
// else (specification: "stdio"). After Close, prints go to standard output again.
func TestPrintsDoNotReachStandardOutput(t *testing.T) {
	out, diagnostics := inChild(t, `{"frame":1}`+"\n"+`{"frame":2}`+"\n", func(t *testing.T) {
		conn, err := transport.Stdio()
		require.NoError(t, err)
		for {
			frame, err := conn.ReadFrame(100)
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			fmt.Println("a stray print")
			require.NoError(t, conn.WriteFrame(frame))
			require.NoError(t, conn.(transport.Flusher).Flush())
		}
		require.NoError(t, conn.Close())
		fmt.Println("after the connection")
	})
	require.Equal(t, `{"frame":1}`+"\n"+`{"frame":2}`+"\nafter the connection\n", out)
	require.Equal(t, "a stray print\na stray print\n", diagnostics)
}

// Two connections would read each other's frames.
func TestSecondStdioIsAnError(t *testing.T) {
	inChild(t, "", func(t *testing.T) {
		first, err := transport.Stdio()
		require.NoError(t, err)
		_, err = transport.Stdio()
		require.ErrorContains(t, err, "in use")
		require.NoError(t, first.Close())
		require.NoError(t, first.Close(), "Close may be called twice")
		second, err := transport.Stdio()
		require.NoError(t, err)
		require.NoError(t, second.Close())
	})
}
