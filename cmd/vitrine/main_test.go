package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runAsMain makes the test binary behave as the program.
const runAsMain = "RUN_AS_MAIN"

// Waiting for what must happen: how long at most, and how often it is looked at.
const (
	patience = 30 * time.Second
	tick     = time.Millisecond
)

func TestMain(m *testing.M) {
	if os.Getenv(runAsMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program returns the program as a command that is killed when the test ends.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), runAsMain+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"", 0, "vitrine serve [flags]", ""},
		{"help", 0, "vitrine serve [flags]", ""},
		{"version", 0, "vitrine ", ""},
		{"serve --help", 0, "VITRINE_ROOT", ""},
		{"serve --version", 0, "build ", ""},
		{"--log-format=json --healthcheck=livez --admin-addr=off", 1, "", "nobody can be asked"},
		{"serve --port 8080", 1, "", "-port"},
		{"serve --root /does/not/exist --addr 127.0.0.1:0 --admin-addr off", 1, "", "/does/not/exist"},
		{"sing", 1, "", `unknown command "sing"`},
	} {
		t.Run(c.args, func(t *testing.T) {
			cmd := program(t, strings.Fields(c.args)...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			assert.Equal(t, c.code, cmd.ProcessState.ExitCode(), err)
			assert.Contains(t, stdout.String(), c.stdout)
			assert.Contains(t, stderr.String(), c.stderr)
		})
	}
}

// request returns a modern tools/call.
func request(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{`+
		`"progressToken":%d,"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`, id, tool, arguments, id)
}

// reply is what a test reads of an answer or a notification.
type reply struct {
	ID     int
	Method string
	Error  json.RawMessage
	Result struct {
		IsError           bool
		Content           []struct{ Text string }
		StructuredContent struct{ Matches []struct{ Path string } }
	}
}

// decode decodes one message strictly enough to notice a stray print.
func decode(t *testing.T, line []byte) (r reply) {
	t.Helper()
	require.NoError(t, json.Unmarshal(line, &r), "%s", line)
	return r
}

// A client that pipes in requests and closes standard input gets all answers, and nothing but
// messages.
func TestPipedRequestsAreAllAnswered(t *testing.T) {
	cmd := program(t, "serve", "--stdio", "--root=.")
	cmd.Stdin = strings.NewReader(request(1, "echo", `{"text":"hello"}`) + "\n" +
		request(2, "search_text", `{"pattern":"^func main\\(","include":"main.go"}`) + "\n" +
		request(3, "sleep", `{"ms":-1}`) + "\n" + request(4, "sleep", `{"ms":1}`) + "\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())

	replies, progress := map[int]reply{}, 0
	for line := range bytes.Lines(out) {
		if r := decode(t, line); r.Method == "notifications/progress" {
			progress++
		} else {
			replies[r.ID] = r
		}
	}
	require.Len(t, replies, 4)
	assert.Equal(t, "hello", replies[1].Result.Content[0].Text)
	require.Len(t, replies[2].Result.StructuredContent.Matches, 1)
	assert.Equal(t, "main.go", replies[2].Result.StructuredContent.Matches[0].Path)
	assert.True(t, replies[3].Result.IsError)
	assert.Equal(t, "slept for 1ms", replies[4].Result.Content[0].Text)
	assert.Positive(t, progress)
	assert.Contains(t, stderr.String(), `"args":["serve","--stdio","--root=."]`)
}

// serving starts the program with free ports and returns its two URLs. The rest
// of its log is returned by the function, when the program has ended.
func serving(t *testing.T, args ...string) (cmd *exec.Cmd, mcp, admin string, log func() string) {
	t.Helper()
	cmd = program(t, append([]string{"serve", "--addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"}, args...)...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stderr)
	var banner string
	for !strings.Contains(banner, "mcpServers") {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, banner)
		banner += line
	}
	mcp = regexp.MustCompile(`http://[0-9.:]+/mcp`).FindString(banner)
	admin = strings.TrimSuffix(regexp.MustCompile(`http://[0-9.:]+/metrics`).FindString(banner), "/metrics")
	rest := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(lines)
		rest <- string(text)
	}()
	return cmd, mcp, admin, func() string { return <-rest }
}

// begin starts a call and waits until it is in flight.
func begin(t *testing.T, mcp, admin, tool, arguments string) <-chan *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, mcp, strings.NewReader(request(1, tool, arguments)))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		req.Header.Set(name, value)
	}
	answer := make(chan *http.Response, 1)
	go func() {
		resp, _ := http.DefaultClient.Do(req) // nil tells the test
		answer <- resp
	}()
	require.Eventually(t, func() bool {
		resp, err := http.Get(admin + "/debug/requests")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return bytes.Contains(text, []byte(`"`+tool+`"`))
	}, patience, tick)
	return answer
}

// ready asks /readyz.
func ready(admin string) bool {
	resp, err := http.Get(admin + "/readyz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
