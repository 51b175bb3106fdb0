package lint

import (
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The steps of the README, in a folder that stands for the machine's root. The program runs with
// the arguments and the environment of the unit.
func TestUnitStarts(t *testing.T) {
	root, source := t.TempDir(), t.TempDir()
	for _, dir := range []string{"/usr/local/bin", "/etc/systemd/system", "/srv"} { // folders of every machine
		require.NoError(t, os.MkdirAll(root+dir, 0o755))
	}
	require.NoError(t, os.MkdirAll(source+"/deploy/systemd", 0o755))
	copyContext(t, repository, "deploy/systemd/vitrine.service", source)
	onMachine := func(text string) string {
		return regexp.MustCompile(`(^|[ >])/(usr|etc|srv)/`).ReplaceAllString(text, "${1}"+root+"/${2}/")
	}
	for _, line := range readmeCommands(t) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", onMachine(line))
		cmd.Dir = source
		switch {
		case line == "make build":
			cmd = exec.CommandContext(t.Context(), "go", "build", "-C", repository, "-o", source+"/bin/", "./cmd/vitrine")
		case strings.HasPrefix(line, "systemctl "):
			continue
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", line, out)
	}

	d := readUnit(t)
	file := strings.TrimPrefix(d.options["EnvironmentFile"], "-")
	secrets, err := os.ReadFile(root + file)
	require.NoError(t, err)
	for line := range strings.Lines(string(secrets)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		d.env[name] = value
	}
	require.NotEmpty(t, d.env["VITRINE_STATE_KEYS"])
	info, err := os.Stat(root + file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "others can read the secrets")

	d.env["VITRINE_ADDR"], d.env["VITRINE_ADMIN_ADDR"] = freeAddress(t), freeAddress(t)
	argv := strings.Fields(d.options["ExecStart"])
	require.Equal(t, unitProgram, argv[0])
	inUnit := func(argv ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), onMachine(argv[0]))
		for _, arg := range argv[1:] {
			if filepath.IsAbs(arg) {
				require.DirExists(t, onMachine(arg), "nothing in the README makes it")
			}
			cmd.Args = append(cmd.Args, onMachine(arg))
		}
		for _, name := range slices.Sorted(maps.Keys(d.env)) {
			cmd.Env = append(cmd.Env, name+"="+d.env[name])
		}
		cmd.Dir = "/" // systemd's default
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	cmd, log := startProgram(t, inUnit(argv...), `"msg":"service.ready"`)
	require.Contains(t, listTools(t, d.env["VITRINE_ADDR"]), `"search_text"`)
	healthy := inUnit(unitProgram, "serve", "--healthcheck=readyz")
	said, err := healthy.CombinedOutput()
	require.NoError(t, err, string(said))
	require.Equal(t, "ready\n", string(said))
	scrape := func() { // as Prometheus does
		resp, err := http.Get("http://" + d.env["VITRINE_ADMIN_ADDR"] + "/metrics")
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
	}
	scrape()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	scraped := false
	for log.Scan() {
		if strings.Contains(log.Text(), `"msg":"linger.begin"`) {
			scrape()
		}
		scraped = scraped || strings.Contains(log.Text(), `"msg":"linger.end","scraped":1,"missing":0`)
	}
	require.NoError(t, cmd.Wait())
	require.True(t, scraped)
}

// readmeCommands returns the lines of the README's blocks of code.
func readmeCommands(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Dir(unitFile) + "/README.md")
	require.NoError(t, err)
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 1 {
			lines = append(lines, strings.Split(strings.TrimSpace(part), "\n")...)
		}
	}
	require.Greater(t, len(lines), 5)
	return lines
}
