//go:build unix

package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A Server is a process of redis-server, on a free port of 127.0.0.1. It ends with its test. Its methods
// fail the test if they cannot do what they should. They must not be called at the same time.
type Server struct {
	tb     testing.TB
	suite  string
	port   int
	config string // a file, or ""
	flags  []string
	dir    string
	cmd    *exec.Cmd
	output *output
}

// Port stands for the port of the server in flags.
const Port = "{port}"

// Start runs a server that stores nothing on disk, with more flags of redis-server, such as
// "--maxmemory", "64mb". Flags that are given again replace the first ones. Without redis-server in
// PATH, the test is skipped as [needs.Tool] does.
func Start(tb testing.TB, suite string, flags ...string) *Server {
	tb.Helper()
	needs.Tool(tb, suite, "redis-server")
	s := &Server{tb: tb, suite: suite, flags: flags, dir: tb.TempDir()}
	s.begin()
	return s
}

// StartSentinel runs a Sentinel that watches a server, and its replicas, under a name. It takes the server for
// dead when it has not answered for so many milliseconds, and needs no other Sentinel to replace it.
func StartSentinel(tb testing.TB, suite, name string, server *Server, patience int) *Server {
	tb.Helper()
	needs.Tool(tb, suite, "redis-server")
	s := &Server{tb: tb, suite: suite, flags: []string{"--sentinel"}, dir: tb.TempDir()}
	s.config = filepath.Join(s.dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 1\nsentinel down-after-milliseconds %[1]s %[3]d\n", name, server.port, patience)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil { // Sentinel keeps what it knows in it
		tb.Fatal(err)
	}
	s.begin()
	return s
}

// begin runs the process on a free port.
func (s *Server) begin() {
	s.tb.Helper()
	s.tb.Cleanup(s.Kill)
	var err error
	for range 5 { // another process may take the port meanwhile
		s.port = freePort(s.tb)
		if err = s.start(); err == nil {
			return
		}
	}
	s.tb.Fatal(err)
}

func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// start runs the process, and returns when it accepts connections.
func (s *Server) start() error {
	flags := append([]string{
		"--port", Port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
	}, s.flags...)
	if s.config != "" {
		flags = append([]string{s.config}, flags...)
	}
	for i := range flags {
		flags[i] = strings.ReplaceAll(flags[i], Port, fmt.Sprint(s.port))
	}
	s.cmd = exec.Command("redis-server", flags...)
	s.cmd.SysProcAttr = new(syscall.SysProcAttr)
	dieWithTests(s.cmd.SysProcAttr)
	s.output = &output{ready: make(chan struct{}), ended: make(chan struct{})}
	pipe, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	go s.output.read(pipe)
	select {
	case <-s.output.ready:
		return nil
	case <-s.output.ended:
		s.end()
		return fmt.Errorf("redis-server has ended:\n%s", s.output)
	}
}

// Addr returns the host and port of the server. They stay the same when it starts again.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Log returns what the process that was started last has printed.
func (s *Server) Log() string { return s.output.String() }

// Stop ends the process as an operator does (SIGTERM), and waits until it has ended.
func (s *Server) Stop() { s.signal(syscall.SIGTERM); s.end() }

// Kill ends the process at once (SIGKILL), if there is one, and waits until it has ended.
func (s *Server) Kill() {
	if s.cmd != nil {
		s.signal(syscall.SIGKILL)
		s.end()
	}
}

// Start runs the process again, after Stop or Kill, with the same address and folder.
func (s *Server) Start() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatal(err)
	}
}

// Freeze stops the process from running (SIGSTOP). The kernel still accepts connections and bytes.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process run again.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.tb.Errorf("redis-server: %v", err)
	}
}

// end waits for the process.
func (s *Server) end() {
	<-s.output.ended // Wait closes the pipe
	_ = s.cmd.Wait() // a signal may have ended it
	s.cmd = nil
}

// An output has what a process prints.
type output struct {
	ready, ended chan struct{}

	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) read(pipe io.Reader) {
	defer close(o.ended)
	ready := o.ready
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		o.mu.Lock()
		fmt.Fprintln(&o.text, lines.Text())
		o.mu.Unlock()
		if ready != nil && (strings.Contains(lines.Text(), "eady to accept connections") || strings.Contains(lines.Text(), "+monitor master")) {
			close(ready)
			ready = nil
		}
	}
}

// String returns what was printed.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
