package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// nginxDir has the configuration that the tests run, with other addresses and times.
const nginxDir = "../deploy/nginx"

// replicaAddress returns an address that stays free while its server is away: others
// listen, and call from, 127.0.0.1.
func replicaAddress() string {
	pid, n := os.Getpid(), lastReplica.Add(1)
	return fmt.Sprintf("127.%d.%d.%d:8081", 64+pid/256%128, pid%256, n)
}

var lastReplica atomic.Uint32 // of this process

// replicas starts the servers behind a proxy. The last one stands for the replica with
// the slow tool.
func replicas(t *testing.T, n int, adjusts ...adjust) (all []*server) {
	t.Helper()
	for range n {
		all = append(all, serveHTTP(t, append(adjusts, withArgs("--addr", replicaAddress()))...))
	}
	return all
}

// proxy starts an nginx in front of three servers, and returns it like a server. The changes are
// pairs of a text in the configuration and its replacement.
func proxy(t *testing.T, backends []*server, changes ...string) *server {
	t.Helper()
	return runNginx(t, func(addr string) (dir string) { return writeNginx(t, addr, backends, changes) })
}

// inTurns starts an nginx with the configuration of deploy/replicas in front of three servers that share
// a store.
func inTurns(t *testing.T, backends []*server) *server {
	t.Helper()
	front := runNginx(t, func(addr string) (dir string) {
		changes := append(inFolder(addr), "/dev/stdout", "access.log", "/dev/stderr", "stderr")
		for i, b := range backends {
			changes = append(changes, fmt.Sprintf("172.31.80.%d:8080", 11+i), b.address())
		}
		return copyNginx(t, changes, "../deploy/replicas/nginx.conf", nginxDir+"/mcp_proxy.conf", nginxDir+"/mcp_token.conf")
	})
	front.behind = backends
	return front
}

// address returns the host and port of a server.
func (s *server) address() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.mcp, "http://"), "/mcp")
}

// runNginx starts an nginx with the configuration that write has written for an address, and returns it
// like a server.
func runNginx(t *testing.T, write func(addr string) (dir string)) *server {
	t.Helper()
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	for {
		addr := freeAddress(t)
		dir := write(addr)
		p := &server{mcp: "http://" + addr + "/mcp", process: start(t, program{
			path: "nginx", args: []string{"-p", dir, "-c", "nginx.conf", "-e", "stderr"},
		})}
		var taken bool
		eventually(t, func() error {
			taken = !p.running() && strings.Contains(p.stderr.text(), "Address already in use")
			if taken {
				return nil
			}
			if !p.running() {
				t.Fatalf("nginx has ended: %s", p.stderr)
			}
			_, err := p.trySend(t.Context(), httpClient(t), http.MethodPost, call(1, "echo", object{}).headers(), "")
			return err
		})
		if !taken {
			return p
		}
	}
}

// inFolder returns the changes for an nginx that writes nothing outside of its folder.
func inFolder(addr string) []string {
	return []string{
		"pid /run/nginx.pid;", "pid nginx.pid; daemon off; master_process off;",
		"http {", "http { client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;",
		"listen 8080;", "listen " + addr + ";",
	}
}

// writeNginx writes the configuration of deploy/nginx to a folder of the test.
func writeNginx(t *testing.T, addr string, backends []*server, changes []string) (dir string) {
	t.Helper()
	changes = append(append(inFolder(addr),
		"/var/log/nginx/error.log", "stderr",
		"/var/log/nginx/mcp.log", "access.log",
	), changes...)
	for i, b := range backends {
		was, is := fmt.Sprintf("127.0.0.1:%d", 8081+i), b.address()
		changes = append(changes, was, is)
		if i < 2 { // the replicas of sessions
			quote := strings.NewReplacer(".", `\.`).Replace
			changes = append(changes, quote(was), quote(is))
		}
	}
	var files []string
	for _, name := range []string{"nginx.conf", "mcp_upstreams.conf", "mcp_proxy.conf", "mcp_names.conf", "mcp_token.conf", "mcp_gateway.conf"} {
		files = append(files, filepath.Join(nginxDir, name))
	}
	return copyNginx(t, changes, files...)
}

// copyNginx copies files of a configuration to a folder of the test. Each change must find its text.
func copyNginx(t *testing.T, changes []string, files ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	unused := map[string]bool{}
	for i := 0; i < len(changes); i += 2 {
		unused[changes[i]] = true
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for old := range unused {
			unused[old] = unused[old] && !strings.Contains(text, old)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(strings.NewReplacer(changes...).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for old, is := range unused {
		if is {
			t.Fatalf("%v say nowhere %q", files, old)
		}
	}
	return dir
}

// An openStream is a POST whose response is read while it arrives.
type openStream struct {
	*lines
	drop   func() // disconnects
	status int
}

// open sends a request and returns as soon as its answer begins.
func (s *server) open(t *testing.T, r request) *openStream {
	t.Helper()
	return s.openWith(t, http.MethodPost, r.headers(), r.frame())
}

// openWith is open with a method and headers.
func (s *server) openWith(t *testing.T, method string, header http.Header, body string) *openStream {
	t.Helper()
	ctx, drop := context.WithCancel(context.Background())
	t.Cleanup(drop)
	req, err := http.NewRequestWithContext(ctx, method, s.mcp, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	late := time.AfterFunc(patience, drop)
	resp, err := httpClient(t).Do(req)
	late.Stop()
	if err != nil {
		t.Fatalf("%s: no answer has begun: %v", s.mcp, err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &openStream{lines: readLines(resp.Body), drop: drop, status: resp.StatusCode}
}

// awaitData waits for an event whose data contain a text.
func (o *openStream) awaitData(t *testing.T, part string, from int) (next int) {
	t.Helper()
	_, next = o.await(t, "event with "+part, from, func(line string) bool {
		return strings.HasPrefix(line, "data: ") && strings.Contains(line, part)
	})
	return next
}

// calls returns the number of tool calls that a server has admitted.
func (s *server) calls(t *testing.T) float64 {
	t.Helper()
	return s.metrics(t).sum("vitrine_requests_admitted_total", "method", "tools/call")
}

// echoes reports whether an answer is the one to echoX.
func (a *answer) echoes() bool { return a.status == http.StatusOK && strings.Contains(a.text(), `"x"`) }

func echoX(id any) request { return call(id, "echo", object{"text": "x"}) }
