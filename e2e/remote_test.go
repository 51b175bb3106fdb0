package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

const mcpRemote = "node/node_modules/mcp-remote/dist/proxy.js"

// mcp-remote stands before the endpoint, for clients that know only pipes: the client starts it,
// and it uses HTTP, in either era. It must connect to nothing else.
func TestRemoteProxyServesBothEras(t *testing.T) {
	for _, p := range []peer{
		{"sdk", "legacy", "http", legacyVersion, "client_cancel"},
		{"sdk", "auto", "http", modernVersion, "client_disconnect"},
	} {
		t.Run(p.mode, func(t *testing.T) {
			node := node(t, "e2e/mcp-remote")
			t.Parallel()
			c := &client{peer: p, server: serveHTTP(t), name: "e2e-sdk (via mcp-remote 0.15.1)", bridged: p.modern()}
			home := t.TempDir()
			driver := command(t, p.library, "legacy", "stdio",
				node, "--import", loopbackOnly(t), mcpRemote, c.server.mcp, "--transport", "http-only", "--protocol", p.mode)
			driver.env = []string{"HOME=" + home, "MCP_REMOTE_CONFIG_DIR=" + home}
			c.driver, _ = drive(t, driver)
			for _, f := range features {
				t.Run(f.name, func(t *testing.T) { f.check(t, c) })
			}
			checkRemoteEnd(t, c)
		})
	}
}

// checkRemoteEnd ends the client and mcp-remote. mcp-remote deletes neither its session
// (dist/proxy.js, line 12682), nor the one with which it has tried the server before
// (dist/chunk-KJCT2FXL.js, line 33276).
func checkRemoteEnd(t *testing.T, c *client) {
	t.Helper()
	c.must(t, "end", nil)
	if status := c.exit(t); status.ExitStatus() != 0 {
		t.Errorf("the driver ended with %v", status)
	}
	c.server.awaitSubscriptions(t, 0)
	rep := c.server.settled(t)
	if n := rep.Totals.Cancelled[c.cause]; n < 2 {
		t.Errorf("%d calls were cancelled by %s, want 2: %v", n, c.cause, rep.Totals.Cancelled)
	}
	eventually(t, func() error {
		rep, err := c.server.requests()
		if err != nil {
			return err
		}
		for _, s := range rep.Sessions {
			if c.modern() || s.Streaming {
				return fmt.Errorf("the client has ended, and there is still %+v", s)
			}
		}
		return nil
	})
	if strings.Contains(c.stderr.text(), "loopback.mjs") {
		t.Error("mcp-remote wanted to do more than talk to the server")
	}
}

// loopbackOnly returns the script that restricts a program to loopback connections.
func loopbackOnly(t *testing.T) string {
	t.Helper()
	script, err := filepath.Abs("node/loopback.mjs")
	if err != nil {
		t.Fatal(err)
	}
	return script
}

// The script that watches the connections of mcp-remote works.
func TestLoopbackOnly(t *testing.T) {
	node := node(t, "e2e/mcp-remote")
	for code, want := range map[string]int{
		`fetch('http://192.0.2.1/')`:                            97,
		`fetch('http://vitrine.invalid/')`:                      97,
		`fetch('http://[2001:db8::1]:81/')`:                     97,
		`require('child_process').spawn('true')`:                97,
		`import('child_process').then(c => c.execFile('true'))`: 97,
		`fetch('http://localhost:81/').catch(() => {})`:         0,
		`fetch('http://127.0.0.1:81/').catch(() => {})`:         0,
	} {
		p := start(t, program{path: node, args: []string{"--import", loopbackOnly(t), "-e", code}})
		if status := p.exit(t); status.ExitStatus() != want {
			t.Errorf("%s: exit status %d, want %d: %s", code, status.ExitStatus(), want, p.stderr)
		}
	}
}
