package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A process is a running server.
type process struct {
	kind   servers.Kind
	cmd    *exec.Cmd
	addr   string
	stdin  io.WriteCloser
	stdout io.ReadCloser // nil if it serves HTTP
	stderr bytes.Buffer
}

// start starts a server of the program exe and waits until it listens.
func start(exe string, kind servers.Kind, s scenario, sink string) (p *process, err error) {
	p = &process{kind: kind}
	p.cmd = exec.Command(exe, "-serve", kind.Name, "-tools", fmt.Sprint(s.tools), fmt.Sprintf("-stdio=%t", s.stdio))
	p.cmd.Stderr = &p.stderr
	p.cmd.Env = cleanEnv(os.Environ())
	if s.backends != (backendAddresses{}) {
		p.cmd.Env = append(p.cmd.Env, s.backends.env()...)
	}
	if kind.Env != nil {
		p.cmd.Env = append(p.cmd.Env, kind.Env(sink)...)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if s.stdio {
		if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
			return nil, err
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p.cmd.ExtraFiles = []*os.File{w} // announceFD
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		return nil, err
	}
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not listen: %w", kind.Name, err), p.stop())
	}
	p.addr = strings.TrimSpace(line)
	return p, nil
}

// cleanEnv removes the variables that would change the telemetry of a server.
func cleanEnv(environ []string) (clean []string) {
	for _, e := range environ {
		if !strings.HasPrefix(e, "OTEL_") && !strings.HasPrefix(e, "VITRINE_") {
			clean = append(clean, e)
		}
	}
	return clean
}

// stop closes the server's input, and kills the server after a while. It returns what the server
// has written to standard error.
func (p *process) stop() error {
	p.stdin.Close()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		if p.stdout != nil {
			_, _ = io.Copy(io.Discard, p.stdout) // a server may wait for its reader
		}
	}()
	impatient := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer impatient.Stop()
	err := p.cmd.Wait()
	<-drained
	if err != nil {
		return fmt.Errorf("%s ended: %w: %s", p.kind.Name, err, p.stderr.Bytes())
	}
	return nil
}

// A pipe has the two ends of the standard input and output of a process.
type pipe struct {
	io.Reader
	io.Writer
}

// load returns a load on the process.
func (p *process) load(s scenario) (load, error) {
	if s.kind == session {
		return newSessionLoad(s, p.addr)
	}
	m := render(s)
	if s.stdio {
		return newStdioLoad(s, m, pipe{p.stdout, p.stdin}), nil
	}
	if s.memory {
		return &memoryLoad{scenario: s, message: m, url: "http://" + p.addr + memoryPath}, nil
	}
	if s.token {
		var err error
		if m.token, err = p.token(); err != nil {
			return nil, err
		}
	}
	m.exact, m.lossy = p.kind.Name != servers.Bare, p.kind.Loses
	return newHTTPLoad(s, m, p.addr)
}

// stats returns the counters of the process.
func (p *process) stats() (s stats, err error) {
	err = p.get(statsPath, &s)
	return s, err
}

// token returns an access token of the process.
func (p *process) token() (token string, err error) {
	err = p.get(tokenPath, &token)
	return token, err
}

// cpu returns the CPU time of the process so far, of all threads, in user and kernel.
func (p *process) cpu() (time.Duration, error) { return cpuTime(p.cmd.Process.Pid) }
