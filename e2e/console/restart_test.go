package console

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
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

	"github.com/vitrine-mcp/vitrine/service"
)

// retry is how long a page waits, at least, before it tries again to reach its server.
const retry = 5 * time.Second

// A page that is open while its server is replaced says so, tries again now and then, and goes on
// with the new server. That holds if the old one was killed and nothing listens, and if it ended
// in order behind a proxy, after which a browser does not retry by itself.
func TestPageReconnectsAfterARestart(t *testing.T) {
	program := build(t)
	s := serve(t, program, "127.0.0.1:0")
	p := open(t, &s.world)
	for i, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		address := s.Admin[len("http://"):]
		before, after := fmt.Sprintf("client-%d", i), fmt.Sprintf("client-%d", i+1)
		s.echo(t, before)
		p.awaitText(t, "#traces tbody tr", "echo", before)
		eval[bool](t, p, "window.old = true")

		s.end(t, how)
		p.await(t, `document.getElementById('status').dataset.state === 'lost'`)
		p.awaitText(t, "#status", "connection lost, trying again")
		leave := func() {}
		if how == syscall.SIGTERM {
			leave = unavailable(t, address)
		}
		p.checkRetries(t, 2)
		leave()
		p.await(t, `document.getElementById('status').dataset.state === 'lost'`)
		if !eval[bool](t, p, "window.old") {
			t.Errorf("%v: the page has reloaded itself without a server", how)
		}

		s = serve(t, program, address)
		p.await(t, `!window.old && document.getElementById('status')?.dataset.state === 'live'`)
		p.awaitText(t, "#tiles .tile", "Requests", "0 since the start")
		s.echo(t, after)
		p.awaitText(t, "#traces tbody tr", "echo", after)
		p.awaitText(t, "#tiles .tile", "Requests", "1 since the start")
		if eval[bool](t, p, fmt.Sprintf("document.getElementById('traces').innerText.includes(%q)", before)) {
			t.Errorf("%v: the page shows requests of the process before", how)
		}
	}
	p.clean(t, "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE",
		"503 (Service Unavailable)")
}

// checkRetries waits until the page has asked for the stream n times more, and fails if it
// did so too often or asked for anything else.
func (p *tab) checkRetries(t *testing.T, n int) {
	t.Helper()
	from := len(p.seen())
	for end := time.Now().Add(patience); len(p.seen()) < from+n; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the page does not try again: %v", p.seen()[from:])
		}
	}
	all := p.seen()
	for i := from; i < len(all); i++ {
		gap := time.Duration((all[i].at - all[i-1].at) * float64(time.Second))
		if !strings.HasSuffix(all[i].url, "/debug/live") || gap < retry*9/10 { // timers of the browser may round
			t.Errorf("%v after the one before, a request for %s", gap, all[i].url)
		}
	}
}

// unavailable answers at an address as a proxy does that has no server.
func unavailable(t *testing.T, address string) (leave func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no server", http.StatusServiceUnavailable)
	})}
	var wg sync.WaitGroup
	wg.Go(func() { _ = proxy.Serve(l) }) // until it is closed
	return func() {
		proxy.Close()
		wg.Wait()
	}
}

// build builds the fixture server.
func build(t *testing.T) (program string) {
	t.Helper()
	chromium(t) // or else for nothing
	program = filepath.Join(t.TempDir(), "everything")
	if out, err := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", program, "./cmd/everything").CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	return program
}

// A running is a server in a process of its own.
type running struct {
	world
	cmd   *exec.Cmd
	ended chan error
}

// serve starts a server. It ends with the test at the latest.
func serve(t *testing.T, program, admin string) *running {
	t.Helper()
	runtime.LockOSThread() // see dieWithTests
	s := &running{world: world{client: &http.Client{Transport: &http.Transport{}}}, ended: make(chan error, 1)}
	s.cmd = exec.Command(program, "--addr", "127.0.0.1:0", "--admin-addr", admin, "--log-format", "json")
	s.cmd.Env, s.cmd.SysProcAttr = []string{"PATH=" + os.Getenv("PATH")}, dieWithTests()
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan service.Endpoints, 1)
	go func() {
		for in := bufio.NewScanner(stderr); in.Scan(); {
			var record struct{ Msg, MCP, Admin string }
			if json.Unmarshal(in.Bytes(), &record) == nil && record.Msg == "service.ready" {
				ready <- service.Endpoints{MCP: record.MCP, Admin: record.Admin}
			}
		}
		s.ended <- s.cmd.Wait()
	}()
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			s.end(t, syscall.SIGTERM)
		}
	})
	select {
	case s.Endpoints = <-ready:
	case err := <-s.ended:
		t.Fatalf("the server has ended: %v", err)
	case <-time.After(patience):
		t.Fatal("the server is not ready")
	}
	return s
}

// end ends the process, and waits for that.
func (s *running) end(t *testing.T, how syscall.Signal) {
	t.Helper()
	s.client.CloseIdleConnections()
	if err := s.cmd.Process.Signal(how); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.ended:
		if how != syscall.SIGKILL && err != nil {
			t.Errorf("the server has ended: %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("the server does not end on %v while a console is open", how)
	}
}

// echo calls a tool.
func (s *running) echo(t *testing.T, client string) {
	t.Helper()
	if err := s.call(t.Context(), caller{client, "1"}, 1, "echo", "hello"); err != nil {
		t.Fatal(err)
	}
}
