package lint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

const (
	unitFile    = repository + "/deploy/systemd/vitrine.service"
	unitProgram = "/usr/local/bin/vitrine"
)

// exposure is the most that systemd-analyze security may find, of 100: the network, which
// a server needs, and little else.
const exposure = "15"

// systemd checks the unit.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	needs.Tool(t, "deploy/systemd", "systemd-analyze")
	text, err := os.ReadFile(unitFile)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	require.Contains(t, string(text), unitProgram)
	file := filepath.Join(t.TempDir(), "vitrine.service")
	require.NoError(t, os.WriteFile(file, bytes.ReplaceAll(text, []byte(unitProgram), []byte(self)), 0o644))
	for _, args := range [][]string{
		{"verify", file},
		{"security", "--no-pager", "--offline=true", "--threshold=" + exposure, file},
	} {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
		require.NoError(t, err, "%s:\n%s", args[0], out)
		if args[0] == "verify" {
			require.Empty(t, string(out), "it only warns of what systemd would ignore")
		}
	}
}

// A deployed is the unit's section about the service.
type deployed struct {
	options map[string]string // the last of each name
	env     map[string]string
}

func readUnit(t *testing.T) deployed {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	require.NoError(t, err)
	options, err := unit.DeserializeOptions(bytes.NewReader(text))
	require.NoError(t, err)
	d := deployed{options: map[string]string{}, env: map[string]string{}}
	for _, o := range options {
		if o.Name == "Environment" {
			name, value, _ := strings.Cut(o.Value, "=")
			require.NotContains(t, d.env, name)
			d.env[name] = value
		}
		if o.Section == "Service" {
			d.options[o.Name] = o.Value
		}
	}
	return d
}

// The service knows the settings of the unit, and accepts their values.
func TestUnitSettings(t *testing.T) {
	d := readUnit(t)
	run := func(env map[string]string, args ...string) (string, error) {
		var out bytes.Buffer
		err := service.Run(t.Context(), server.New("unit", "1"), service.WithArgs(args), service.WithStdout(&out),
			service.WithStderr(&out), service.WithGetenv(func(name string) string { return env[name] }))
		return out.String(), err
	}
	help, err := run(nil, "--help")
	require.NoError(t, err)
	for name := range d.env {
		if strings.HasPrefix(name, "VITRINE_") {
			require.Regexp(t, `[\s\[]`+name+`\]`, help)
		}
	}
	d.env["VITRINE_ADMIN_ADDR"] = "127.0.0.1:0" // nobody, and the check says so unless a value is wrong
	_, err = run(d.env, "--healthcheck=livez")
	require.ErrorContains(t, err, "nobody can be asked")
	require.NotContains(t, err.Error(), "invalid value")
}

// systemd waits longer than the server may take to end.
func TestSystemdWaitsForTheDrain(t *testing.T) {
	d := readUnit(t)
	span := func(name string) time.Duration {
		t.Helper()
		v, err := time.ParseDuration(d.env[name])
		require.NoError(t, err, name)
		return v
	}
	limits := server.New("unit", "1").Limits()
	sum := span("VITRINE_SHUTDOWN_DELAY") +
		max(span("VITRINE_REFUSE_TIME"), span("VITRINE_DRAIN_TIMEOUT")+limits.CleanupGrace*6/5+limits.HookGrace) +
		limits.CleanupGrace + span("VITRINE_LINGER_TIMEOUT") + service.DefaultConfig().FlushTimeout + limits.CleanupGrace
	prometheus, err := os.ReadFile("../prometheus/prometheus.yml")
	require.NoError(t, err)
	interval := regexp.MustCompile(`(?m)^  scrape_interval: (\S+)$`).FindSubmatch(prometheus)
	require.NotNil(t, interval)
	scrapes, err := time.ParseDuration(string(interval[1]))
	require.NoError(t, err)
	require.Greater(t, span("VITRINE_LINGER_TIMEOUT"), scrapes, "a last scrape comes in time")
	stop, err := time.ParseDuration(d.options["TimeoutStopSec"])
	require.NoError(t, err)
	require.Greater(t, stop, sum+5*time.Second)
	require.Less(t, stop, 2*sum, "a server that hangs is waited for in vain")
	require.Equal(t, "SIGTERM", d.options["KillSignal"])
	text, err := os.ReadFile(unitFile)
	require.NoError(t, err)
	require.Contains(t, string(text), sum.String()[:len("50.6")]+" seconds")
}

// The limits of the server follow from that of the kernel, and from no second figure.
func TestUnitMemory(t *testing.T) {
	d := readUnit(t)
	require.NotContains(t, d.env, "GOMEMLIMIT")
	require.NotContains(t, d.env, "VITRINE_MAX_MEMORY")
	hard, err := strconv.Atoi(strings.TrimSuffix(d.options["MemoryMax"], "M"))
	require.NoError(t, err)
	require.NoError(t, server.Limits{MaxMemory: hard << 20 * 3 / 4}.Check(), "there is room for the least limits")
}

// An operator may drain a server, whose process then ends without an error: systemd starts it again, also then.
func TestSystemdStartsAServerAgainThatWasDrained(t *testing.T) {
	require.Equal(t, "always", readUnit(t).options["Restart"])
}
