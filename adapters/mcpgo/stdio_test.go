package mcpgo_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
)

// The example is a program that a client runs over stdio, in either era; an operator
// finds the call on its pages.
func TestExampleOverStdio(t *testing.T) {
	binary := t.TempDir() + "/example"
	build := exec.Command("go", "build", "-o", binary, "./example")
	build.Stderr = os.Stderr
	require.NoError(t, build.Run())
	for _, version := range []string{legacy, modern} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t) // for its client
			program := transport.NewStdio(binary, nil)
			c := w.dial(program, version)
			addresses := make(chan string, 1)
			go func() {
				find, log := regexp.MustCompile(`address=(\S+)`), bufio.NewScanner(program.Stderr())
				for log.Scan() {
					if m := find.FindStringSubmatch(log.Text()); m != nil {
						addresses <- m[1]
					}
				}
			}()
			result, err := call(t, c, "greet", map[string]any{"name": "Ada"})
			require.NoError(t, err)
			require.Equal(t, "Hello, Ada", result.Content[0].(mcp.TextContent).Text)

			admin := "http://" + adapttest.Receive(t, addresses, "the address of the pages")
			metrics := get(t, admin+"/metrics")
			require.Regexp(t, `mcp_server_operation_duration_seconds_count\{.*gen_ai_tool_name="greet".*mcp_protocol_version="`+
				version+`".*network_transport="pipe".*\} 1\n`, metrics)
			require.Contains(t, get(t, admin+"/debug/traces"), `"tool": "greet"`)
			require.Contains(t, get(t, admin+"/debug/requests"), `"in_flight"`)
		})
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
	http.DefaultClient.CloseIdleConnections()
	return string(body)
}
