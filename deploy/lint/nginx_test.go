package lint

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While a replica refuses, nginx learns that it ends, and closes its idle connections to it. Otherwise a
// call could arrive on one of them just when the replica closes it at the end of the refuse time.
func TestNginxLetsGoOfAReplicaThatRefuses(t *testing.T) {
	conf, err := os.ReadFile(repository + "/deploy/nginx/mcp_upstreams.conf")
	require.NoError(t, err)
	refuse, err := time.ParseDuration(readUnit(t).env["VITRINE_REFUSE_TIME"])
	require.NoError(t, err)
	for _, setting := range []string{`keepalive_timeout (\w+);`, `fail_timeout=(\w+)`} {
		found := regexp.MustCompile(setting).FindAllSubmatch(conf, -1)
		require.NotEmpty(t, found, setting)
		for _, m := range found {
			span, err := time.ParseDuration(string(m[1]))
			require.NoError(t, err)
			require.Less(t, span, refuse, setting)
		}
	}
	keeps := len(regexp.MustCompile(`(?m)^\tkeepalive \d`).FindAll(conf, -1))
	spans := len(regexp.MustCompile(`(?m)^\tkeepalive_timeout `).FindAll(conf, -1))
	require.Equal(t, keeps, spans, "nginx keeps connections for a minute unless it is told")
}
