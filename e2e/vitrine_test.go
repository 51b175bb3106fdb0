package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// The demonstration service is used as a person would: start it, follow its output, search.
func TestVitrineIsUsedAsPrinted(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "poem.txt"), []byte("one\nthe needle\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, program{path: programFile("vitrine"), args: []string{
		"serve", "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--root", root,
	}})
	config := pasteable(t, p)
	metrics, _ := p.stderr.await(t, "URL of the metrics", 0, regexp.MustCompile(`^ +metrics +http://`).MatchString)
	s := &server{process: p, mcp: config.URL, admin: regexp.MustCompile(`http://[^/]*`).FindString(metrics)}

	a := s.post(t, call(1, "search_text", object{"pattern": "n[e]+dle"}).with("progressToken", "p"))
	var found struct {
		Matches []struct {
			Path string
			Line int
			Text string
		}
	}
	if a.Result == nil || json.Unmarshal(a.Result.StructuredContent, &found) != nil || len(found.Matches) != 1 ||
		found.Matches[0].Path != "poem.txt" || found.Matches[0].Line != 2 || found.Matches[0].Text != "the needle" {
		t.Errorf("search_text: %s", a.body)
	}
	if a := s.post(t, call(2, "search_text", object{"pattern": "root", "path": "../../../../../../etc"})); a.Result == nil || !a.Result.IsError {
		t.Errorf("outside of the root: %s", a.body)
	}
	s.settled(t)
	s.signal(t, syscall.SIGTERM)
	s.exited(t, 0)
}

// The client configuration that a server on pipes prints starts it.
func TestPrintedClientConfigurationStartsTheServer(t *testing.T) {
	t.Parallel()
	p := start(t, program{path: programFile("vitrine"), args: []string{"serve", "--stdio"}, dir: t.TempDir()})
	config := pasteable(t, p)
	p.stdin.Close()
	(&server{process: p}).exited(t, 0)

	q := connect(&server{process: start(t, program{path: config.Command, args: config.Args, dir: t.TempDir()})})
	if m := q.ask(t, call(1, "echo", object{"text": "pasted"})); m.text() != "pasted" {
		t.Errorf("echo: %s", m)
	}
	q.stdin.Close()
	q.exited(t, 0)
}

// clientConfig is one server in the configuration of a client.
type clientConfig struct {
	Type, URL, Command string
	Args               []string
}

// pasteable returns the client configuration that a process prints.
func pasteable(t *testing.T, p *process) clientConfig {
	t.Helper()
	line, _ := p.stderr.await(t, "client configuration", 0, regexp.MustCompile(`^{"mcpServers"`).MatchString)
	var config struct{ MCPServers map[string]clientConfig }
	if err := json.Unmarshal([]byte(line), &config); err != nil || len(config.MCPServers) != 1 {
		t.Fatalf("client configuration %s: %v", line, err)
	}
	for _, c := range config.MCPServers {
		return c
	}
	panic("unreachable")
}
