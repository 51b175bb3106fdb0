package e2e

import (
	"encoding/json"
	"slices"
	"testing"
)

const inspector = "node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"

// TestInspector uses the command line of the inspector, as people do from scripts.
func TestInspector(t *testing.T) {
	for _, transport := range []string{"http", "stdio"} {
		t.Run(transport, func(t *testing.T) {
			node := node(t, "e2e/inspector")
			t.Parallel()
			p := everything(withArgs("--stdio"))
			target := append([]string{p.path}, p.args...)
			if transport == "http" {
				target = []string{serveHTTP(t).mcp}
			}
			var list struct{ Tools []struct{ Name string } }
			inspect(t, node, target, &list, "--method", "tools/list")
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
			if !slices.Contains(names, "echo") {
				t.Errorf("tools/list: %q", names)
			}
			var result struct{ StructuredContent struct{ Text string } }
			inspect(t, node, target, &result, "--tool-arg", "text=seen", "--tool-name", "echo", "--method", "tools/call")
			if result.StructuredContent.Text != "seen" {
				t.Errorf("tools/call: %+v", result)
			}
		})
	}
}

// inspect runs the inspector once and decodes what it prints.
func inspect(t *testing.T, node string, target []string, result any, args ...string) {
	t.Helper()
	all := append([]string{inspector, "--cli"}, args...)
	if len(target) > 1 {
		all = append(append(all, "--"), target...)
	} else {
		all = append(all, target...)
	}
	p := start(t, program{path: node, args: all, env: []string{"HOME=" + t.TempDir()}})
	p.stdin.Close()
	if status := p.exit(t); status.ExitStatus() != 0 {
		t.Fatalf("the inspector ended with %d:\n%s\n%s", status.ExitStatus(), p.stdout, p.stderr)
	}
	p.stdout.drained(t)
	if err := json.Unmarshal([]byte(p.stdout.text()), result); err != nil {
		t.Fatalf("the inspector printed %s: %v", p.stdout, err)
	}
}
