package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// While a replica refuses, nginx learns that it ends, and closes its idle connections to it. Otherwise a
// call could arrive on one of them just when the replica closes it at the end of the refuse time.
func TestNginxLetsGoOfAReplicaThatRefuses(t *testing.T) {
	for _, file := range []string{"nginx/mcp_upstreams.conf", "replicas/nginx.conf"} {
		t.Run(file, func(t *testing.T) { letsGo(t, file) })
	}
}

func letsGo(t *testing.T, file string) {
	t.Helper()
	conf, err := os.ReadFile(filepath.Join(repository, "deploy", file))
	require.NoError(t, err)
	refuse, err := time.ParseDuration(readUnit(t).env["VITRINE_REFUSE_TIME"])
	require.NoError(t, err)
	for _, setting := range []string{`\tkeepalive \d+;\n\t+keepalive_timeout (\w+);`, `fail_timeout=(\w+)`} {
		found := regexp.MustCompile(setting).FindAllSubmatch(conf, -1)
		require.NotEmpty(t, found, setting)
		for _, m := range found {
			span, err := time.ParseDuration(string(m[1]))
			require.NoError(t, err)
			require.Less(t, span, refuse, setting)
		}
	}
	keeps := len(regexp.MustCompile(`(?m)^\t+keepalive \d`).FindAll(conf, -1))
	spans := len(regexp.MustCompile(`\tkeepalive \d+;\n\t+keepalive_timeout `).FindAll(conf, -1))
	require.Equal(t, keeps, spans, "nginx keeps connections for a minute unless it is told")
}

// nginx accepts both configurations, with the files that they include.
func TestNginxAcceptsItsConfiguration(t *testing.T) {
	needs.Tool(t, "deploy/nginx", "nginx")
	shared, err := filepath.Glob(repository + "/deploy/nginx/mcp_*.conf")
	require.NoError(t, err)
	for folder, includes := range map[string][]string{
		"nginx": shared, "replicas": {repository + "/deploy/nginx/mcp_proxy.conf", repository + "/deploy/nginx/mcp_token.conf"},
	} {
		t.Run(folder, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range append(includes, filepath.Join(repository, "deploy", folder, "nginx.conf")) {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				own := strings.NewReplacer("/var/log/nginx/", "", "/dev/stdout", "log", "/dev/stderr", "stderr",
					"pid /run/nginx.pid;", "pid nginx.pid;", "http {",
					"http { client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;")
				require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(own.Replace(string(text))), 0o600))
			}
			out, err := exec.CommandContext(t.Context(), "nginx", "-t", "-p", dir, "-c", "nginx.conf", "-e", "stderr").CombinedOutput()
			require.NoError(t, err, string(out))
			require.NotContains(t, string(out), "[warn]")
		})
	}
}
