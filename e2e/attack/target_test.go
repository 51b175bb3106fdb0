package attack

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A target is a server under attack, a process of its own.
type target struct {
	cmd   *exec.Cmd
	mcp   string // URL of the MCP endpoint; empty over stdio
	host  string // host and port of that URL
	admin string // URL of the admin listener
	log   *lines
	ended chan struct{}    // closed when the process has ended
	state *os.ProcessState // valid then

	credential string // for the admin listener, or ""
	stopped    bool   // the test has ended the server itself

	identify func(header http.Header, name string) // says who calls; nil is a bearer token that is the name
	tls      *tls.Config                           // of clients; nil if the server does not speak TLS

	stdin  io.WriteCloser // of a server on stdio
	stdout io.ReadCloser
	stderr io.ReadCloser // nil if it is read into log
}

// attacked starts the victim on a free port. At the end of the test it must be alive and at rest,
// with every request accounted for, and end in order.
func attacked(t *testing.T, args ...string) *target {
	t.Helper()
	return serve(t, "victim", append([]string{"--addr", "127.0.0.1:0"}, args...)...)
}

// serve starts a program that serves over HTTP.
func serve(t *testing.T, program string, args ...string) *target {
	t.Helper()
	s := newTarget(program, append(args, "--admin-addr", "127.0.0.1:0")...)
	s.serve(t)
	return s
}

func (s *target) serve(t *testing.T) {
	t.Helper()
	s.cmd.Env = append(s.cmd.Env, "VITRINE_LOG_FORMAT=json") // which a flag overrides
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.start(t)
	s.log = readLines(stderr)
	s.findEndpoints(t)
	t.Cleanup(func() { s.end(t) })
}

func newTarget(program string, args ...string) *target {
	s := &target{cmd: exec.Command(filepath.Join(programs, program), args...), ended: make(chan struct{})}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "OTEL_") && !strings.HasPrefix(name, "VITRINE_") {
			s.cmd.Env = append(s.cmd.Env, e)
		}
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithTests(s.cmd.SysProcAttr)
	return s
}

// spawner starts processes from one thread that lives as long as the tests. When that thread ends,
// the kernel kills the processes.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func (s *target) start(t *testing.T) {
	t.Helper()
	started := make(chan error)
	spawner() <- func() { started <- s.cmd.Start() }
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	go func() {
		s.state, _ = s.cmd.Process.Wait() // not cmd.Wait, which closes the pipes under their readers
		close(s.ended)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		if t.Failed() && s.log != nil {
			t.Logf("the end of the log:\n%s", s.log.tail(4000))
		}
	})
}

// findEndpoints waits until the server has logged its addresses.
func (s *target) findEndpoints(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		text := strings.Join(s.log.all(), "")
		mcp, admin := mcpAddress.FindStringSubmatch(text), adminAddress.FindStringSubmatch(text)
		if mcp == nil || admin == nil {
			return errors.New("the server does not become ready")
		}
		s.mcp, s.admin = mcp[1], admin[1]
		return nil
	})
	u, err := url.Parse(s.mcp)
	if err != nil {
		t.Fatal(err)
	}
	s.host = u.Host
}

// The addresses of a server, in its log or in the text that it prints instead.
var (
	mcpAddress   = regexp.MustCompile(`\bmcp"?[:=\s]+"?(https?://[^"\s]+)`)
	adminAddress = regexp.MustCompile(`\b(?:admin|console)"?[:=\s]+"?(https?://[^"\s/]+)`)
)

// alive reports whether the process runs.
func (s *target) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// end checks what must be true after every attack.
func (s *target) end(t *testing.T) {
	if t.Failed() || s.stopped {
		return
	}
	s.stopped = true
	if !s.alive() {
		t.Errorf("the server has died:\n%s", s.log.tail(4000))
		return
	}
	s.conserved(t)
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
		if s.state == nil || !s.state.Success() {
			t.Errorf("the server ended with %v:\n%s", s.state, s.log.tail(4000))
		}
	case <-time.After(patience):
		t.Errorf("the server does not end:\n%s", s.log.tail(4000))
	}
	select {
	case <-s.log.complete:
	case <-time.After(patience):
		t.Error("somebody else writes to the log of the server")
	}
	for _, line := range s.log.all() {
		for _, bad := range []string{"invariant.broken", "observer.panic", "write.unclassified", "DATA RACE"} {
			if strings.Contains(line, bad) {
				t.Errorf("the log has: %s", line)
			}
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			t.Errorf("the server died: %s", line)
		}
	}
}

// lines are the lines that a process has written.
type lines struct {
	complete chan struct{} // closed when it writes no more
	mu       sync.Mutex
	got      []string
}

func readLines(r io.Reader) *lines {
	l := &lines{complete: make(chan struct{})}
	go func() {
		defer close(l.complete)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				l.mu.Lock()
				l.got = append(l.got, line)
				l.mu.Unlock()
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.got...)
}

// tail returns the last n bytes.
func (l *lines) tail(n int) string {
	text := strings.Join(l.all(), "")
	return text[max(0, len(text)-n):]
}
