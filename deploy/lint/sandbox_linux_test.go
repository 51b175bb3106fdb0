package lint

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// patience is the time that a test waits for something that must happen.
const patience = 60 * time.Second

// enter makes a folder a read-only root, and runs a program in it as a user without privileges. An
// unprivileged user of this machine keeps its id.
const enter = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && ! touch "$0/x" 2>/dev/null &&
exec chroot $AS "$0" "$@"`

// inImage returns a command that runs as the image runs it.
func inImage(t *testing.T, root, user string, env []string, argv ...string) *exec.Cmd {
	t.Helper()
	unshare, as := []string{"unshare", "--mount"}, "--userspec="+user
	if os.Geteuid() != 0 {
		unshare, as = append(unshare, "--map-root-user"), ""
	}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		needs.Skip(t, "deploy/container", fmt.Sprintf("no mount namespaces here: %v %s", err, out))
	}
	args := append(unshare[1:], "env", "-i", "PATH="+os.Getenv("PATH"), "AS="+as)
	args = append(append(args, env...), append([]string{"sh", "-c", enter, root}, argv...)...)
	cmd := exec.CommandContext(t.Context(), unshare[0], args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// testContainer runs the program of an image, calls it, and runs its health check.
func testContainer(t *testing.T, final instructions.Stage, root string) {
	user := command[*instructions.UserCommand](t, final).User
	entrypoint := command[*instructions.EntrypointCommand](t, final).CmdLine
	mcp, admin := freeAddress(t), freeAddress(t)
	var env []string
	for _, kv := range command[*instructions.EnvCommand](t, final).Env {
		switch { // unlike the container, the test shares the network
		case kv.Value == ":8080":
			kv.Value = mcp
		case kv.Value == ":9464":
			kv.Value = admin
		}
		env = append(env, kv.Key+"="+kv.Value)
	}
	healthy := func() (string, error) {
		check := command[*instructions.HealthCheckCommand](t, final).Health.Test[1:]
		out, err := inImage(t, root, user, env, check...).CombinedOutput()
		return string(out), err
	}

	program := append(entrypoint, command[*instructions.CmdCommand](t, final).CmdLine...)
	end := func(cmd *exec.Cmd, log *bufio.Scanner) {
		t.Helper()
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		for log.Scan() {
		}
		require.NoError(t, cmd.Wait())
	}
	end(startProgram(t, inImage(t, root, user, append(env, "VITRINE_LOG_FORMAT=text"), program...), " is ready")) // the environment overrides a setting of the image
	cmd, log := startProgram(t, inImage(t, root, user, env, program...), `"msg":"service.ready"`)
	if os.Geteuid() == 0 {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		require.NoError(t, err)
		id, _, _ := strings.Cut(user, ":")
		require.Contains(t, string(status), "\nUid:\t"+strings.Repeat(id+"\t", 3)+id+"\n")
		require.Contains(t, string(status), "\nCapEff:\t0000000000000000\n")
	}
	require.Contains(t, listTools(t, mcp), `"tools":[{`)
	said, err := healthy()
	require.NoError(t, err, said)
	require.Equal(t, "ok\n", said)

	end(cmd, log)
	said, err = healthy()
	require.Error(t, err, said)
	require.Contains(t, said, "connection refused")
}

// startProgram starts a program and waits until it is ready. It returns the rest of its log.
func startProgram(t *testing.T, cmd *exec.Cmd, ready string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	log, said := bufio.NewScanner(stderr), ""
	for log.Scan() {
		if said += log.Text() + "\n"; strings.Contains(log.Text(), ready) {
			return cmd, log
		}
	}
	require.Fail(t, "the program has ended, and was not "+ready, said)
	return nil, nil
}

// listTools returns the answer of a server to tools/list.
func listTools(t *testing.T, addr string) string {
	t.Helper()
	const version = "2026-07-28"
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": map[string]any{
		"_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": map[string]any{},
		},
	}})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/mcp", bytes.NewReader(body))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": version, "Mcp-Method": "tools/list",
	} {
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(resp.Body)
	require.NoError(t, err)
	return answer.String()
}

// freeAddress returns an address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
