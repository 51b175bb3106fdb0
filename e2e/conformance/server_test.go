package conformance

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is the time that a test waits for something that must happen. A passing test never
// takes that long.
const patience = 30 * time.Second

// A server is the fixture server at work.
type server struct {
	cmd   *exec.Cmd
	mcp   string // URL of the MCP endpoint
	admin string // URL of the admin listener
	ended chan struct{}

	mu  sync.Mutex
	log []string
}

// build builds the fixture server.
func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "everything")
	build := exec.Command("go", "build", "-o", program, "./cmd/everything")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	return program
}

// serve starts the fixture server on a free port, with additional environment variables. At the end of the
// test it must be at rest, with every answer accounted for, and end in order.
func serve(t *testing.T, program string, env ...string) *server {
	t.Helper()
	runtime.LockOSThread() // see dieWithTests
	s := &server{ended: make(chan struct{})}
	s.cmd = exec.Command(program, "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--log-format", "json")
	s.cmd.Env, s.cmd.SysProcAttr = append(cleanEnv(), env...), dieWithTests()
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end(t) })
	ready := make(chan struct{})
	go func() {
		defer close(s.ended)
		for in := bufio.NewReader(stderr); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			s.mu.Lock()
			s.log = append(s.log, line)
			s.mu.Unlock()
			var record struct{ Msg, MCP, Admin string }
			if s.mcp == "" && json.Unmarshal([]byte(line), &record) == nil && record.Msg == "service.ready" {
				s.mcp, s.admin = record.MCP, record.Admin
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
	case <-s.ended:
		t.Fatalf("the server ended:\n%s", s.lines())
	case <-time.After(patience):
		t.Fatalf("the server is not ready:\n%s", s.lines())
	}
	return s
}

// lines returns the log so far.
func (s *server) lines() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "")
}

// settled waits until nothing is in flight and checks that every answer is accounted
// for: admitted = sent + stored + dropped. It returns the number of admitted requests.
func (s *server) settled(t *testing.T) (admitted uint64) {
	t.Helper()
	var report struct {
		Requests []json.RawMessage
		Totals   struct {
			Admitted, Sent, Stored uint64
			Dropped                map[string]uint64
		}
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		req, err := http.NewRequest(http.MethodGet, s.admin+"/debug/requests", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("the server does not tell about its requests: %v", err)
			return 0
		}
		report.Requests, report.Totals.Dropped = nil, nil
		err = json.NewDecoder(resp.Body).Decode(&report)
		_ = resp.Body.Close()
		if err != nil {
			t.Errorf("the server does not tell about its requests: %v", err)
			return 0
		}
		if len(report.Requests) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("after the suite has ended, still in flight: %s", report.Requests)
			return 0
		}
	}
	known := report.Totals.Sent + report.Totals.Stored
	for _, n := range report.Totals.Dropped {
		known += n
	}
	if known != report.Totals.Admitted {
		t.Errorf("not conserved: %+v", report.Totals)
	}
	return report.Totals.Admitted
}

// end ends the server and checks how it ends, and its log.
func (s *server) end(t *testing.T) {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("the server did not live to the end: %v", err)
	}
	select {
	case <-s.ended:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		t.Errorf("the server did not end")
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server: %v", err)
	}
	log := s.lines()
	for _, bad := range []string{"WARNING: DATA RACE", "invariant.broken", "\npanic: ", "\nfatal error: "} {
		if at := strings.Index(log, bad); at >= 0 {
			t.Errorf("the server's log: %.4000s", log[at:])
		}
	}
}

// cleanEnv returns the environment without variables that configure the server or the suite.
func cleanEnv() (env []string) {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "OTEL_") && !strings.HasPrefix(name, "VITRINE_") && !strings.HasPrefix(name, "NODE_") && !strings.HasSuffix(strings.ToLower(name), "_proxy") {
			env = append(env, e)
		}
	}
	return env
}
