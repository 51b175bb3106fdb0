package adapttest

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// BuildExample builds the example of the module in the current folder.
func BuildExample(t testing.TB) (binary string) {
	t.Helper()
	binary = t.TempDir() + "/example"
	build := exec.Command("go", "build", "-o", binary, "./example")
	build.Stderr = os.Stderr
	require.NoError(t, build.Run())
	return binary
}

// Pages waits for the address of the operators' pages in the log of the example. It requires that the
// pages show the call of the tool greet.
func Pages(t testing.TB, log io.Reader, version string) {
	t.Helper()
	addresses := make(chan string, 1)
	go func() {
		find, lines := regexp.MustCompile(`address=(\S+)`), bufio.NewScanner(log)
		for lines.Scan() {
			if m := find.FindStringSubmatch(lines.Text()); m != nil {
				addresses <- m[1]
			}
		}
	}()
	admin := "http://" + Receive(t, addresses, "the address of the pages")
	require.Regexp(t, `mcp_server_operation_duration_seconds_count\{.*gen_ai_tool_name="greet".*mcp_protocol_version="`+
		version+`".*network_transport="pipe".*\} 1\n`, get(t, admin+"/metrics"))
	require.Contains(t, get(t, admin+"/debug/traces"), `"tool": "greet"`)
	require.Contains(t, get(t, admin+"/debug/requests"), `"in_flight"`)
}

func get(t testing.TB, url string) string {
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
