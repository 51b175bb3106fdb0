package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// node returns the Node that the scripts run with, which comes as an npm package.
// The test is skipped if the npm packages are not installed.
func node(t *testing.T, suite string) string {
	t.Helper()
	needs.Long(t, suite)
	path, err := filepath.Abs("node/node_modules/node/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{
		path, "node/node_modules/@modelcontextprotocol/client", "node/node_modules/@modelcontextprotocol/sdk", "node/node_modules/oidc-provider", inspector, mcpRemote,
	} {
		if _, err := os.Stat(file); err != nil {
			needs.Skip(t, suite, "npm packages of e2e/node not installed")
		}
	}
	return path
}
