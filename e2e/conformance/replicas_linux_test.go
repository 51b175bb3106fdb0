package conformance

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// Three replicas that share a store, behind a balancer that sends each request to the next one, meet the
// requirements of the revisions, as one server does.
func TestReplicasConform(t *testing.T) {
	runtime.LockOSThread() // see dieWithTests
	suite := findSuite(t)
	needs.Tool(t, "e2e/conformance", "nginx")
	env := []string{
		"VITRINE_STATE_KEYS=" + base64.StdEncoding.EncodeToString([]byte("a key of tests with 32 bytes or more")),
		"VITRINE_STORE=redis://" + redistest.Start(t, "e2e/conformance").Addr() + "/0",
	}
	program := build(t)
	var all []*server
	for range 3 {
		all = append(all, serve(t, program, env...))
	}
	front := balance(t, all)
	_, runs := suite.plan(t)
	runs = runs[:2] // the requirements
	begin := time.Now()
	for _, r := range runs {
		r.name += " in turns"
		suite.execute(t.Context(), front, r)
	}
	rep := judged(runs...)
	rep.took = time.Since(begin)
	fmt.Fprintf(t.Output(), "\n%s\n", rep)
	for _, f := range rep.faults {
		t.Errorf("%s", f)
	}
	for _, s := range all {
		if n := s.settled(t); n == 0 {
			t.Errorf("%s has got no request", s.mcp)
		}
	}
}

// balance starts an nginx with the configuration of deploy/replicas in front of three servers, and returns
// its URL for clients.
func balance(t *testing.T, all []*server) (url string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	changes := []string{
		"pid /run/nginx.pid;", "pid nginx.pid; daemon off; master_process off;",
		"http {", "http { client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;",
		"listen 8080;", "listen " + addr + ";", "/dev/stdout", "access.log", "/dev/stderr", "stderr",
	}
	for i, s := range all {
		host := strings.TrimSuffix(strings.TrimPrefix(s.mcp, "http://"), "/mcp")
		changes = append(changes, fmt.Sprintf("172.31.80.%d:8080", 11+i), host)
	}
	dir := t.TempDir()
	for _, file := range []string{"replicas/nginx.conf", "nginx/mcp_proxy.conf", "nginx/mcp_token.conf"} {
		text, err := os.ReadFile(filepath.Join("../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		replaced := strings.NewReplacer(changes...).Replace(string(text))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(replaced), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("nginx", "-p", dir, "-c", "nginx.conf", "-e", "stderr")
	cmd.SysProcAttr, cmd.Stderr = dieWithTests(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	url = "http://" + addr + "/mcp"
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			return url
		}
		if time.Now().After(deadline) {
			t.Fatalf("nginx does not answer: %v", err)
		}
	}
}
