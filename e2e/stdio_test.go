package e2e

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A pipe is a client on the standard input and output of a server.
type pipe struct {
	*server
	next int // line of standard output that was not looked at yet
}

// connect returns the client of a server that was started on pipes.
func connect(s *server) *pipe { return &pipe{server: s} }

// write writes one line.
func (p *pipe) write(t *testing.T, frame string) {
	t.Helper()
	if _, err := io.WriteString(p.stdin, frame+"\n"); err != nil {
		t.Fatalf("write to the server: %v", err)
	}
}

// abandonable returns a standard output for a process, and a function after which nobody reads it. It is a socket: the reader
// of a pipe is not gone when it is closed here, because a process that another test starts has a copy until it runs its program.
func abandonable(t *testing.T) (stdout *os.File, leave func()) {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range ends {
		syscall.CloseOnExec(end)
	}
	t.Cleanup(func() { _ = syscall.Close(ends[0]) })
	return os.NewFile(uintptr(ends[1]), "stdout"), func() {
		if err := syscall.Shutdown(ends[0], syscall.SHUT_RD); err != nil {
			t.Error(err)
		}
	}
}

// read waits for the next message.
func (p *pipe) read(t *testing.T) message {
	t.Helper()
	var line string
	line, p.next = p.stdout.await(t, "message", p.next, func(string) bool { return true })
	return decode(t, line)
}

// readID waits for the response with an id, as raw JSON; "" means one without an id.
// Messages before it are passed over.
func (p *pipe) readID(t *testing.T, id string) message {
	t.Helper()
	for {
		if m := p.read(t); m.Method == "" && string(m.ID) == id {
			return m
		}
	}
}

// ask writes a request and waits for its response.
func (p *pipe) ask(t *testing.T, r request) message {
	t.Helper()
	p.write(t, r.frame())
	return p.readID(t, encode(r.id))
}

// handshake opens a legacy session.
func (p *pipe) handshake(t *testing.T) {
	t.Helper()
	if m := p.ask(t, initializeRequest()); m.Result == nil || m.Result.ProtocolVersion != legacyVersion {
		t.Fatalf("initialize: %+v", m)
	}
	p.write(t, request{method: "notifications/initialized", legacy: true}.frame())
}

// answers returns the responses on standard output, by id.
func answersByID(t *testing.T, out string) map[string]message {
	t.Helper()
	all := map[string]message{}
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		if m := decode(t, line); m.Method == "" {
			all[string(m.ID)] = m
		}
	}
	return all
}
