package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A program is built and started like a release.
type program struct {
	title   string
	module  string // its folder
	source  string // the package in it
	args    []string
	echoes  bool   // its answer repeats the argument
	scraped bool   // it has metrics
	path    string // of the binary
}

// build builds the program as the Dockerfile does.
func (prog program) build() error {
	args := append([]string{"build", "-C", prog.module, "-race=false"}, releaseFlags...)
	cmd := exec.Command("go", append(args, "-o", prog.path, prog.source)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build of %s: %w: %s", prog.source, err, bytes.TrimSpace(out))
	}
	return nil
}

// A launch is the time from the start of a program to its first answer, and the CPU time that
// the program has used until then.
type launch struct{ took, cpu time.Duration }

// A service is a running program.
type service struct {
	title   string
	cmd     *exec.Cmd
	drained chan struct{} // closed when its standard error has ended
	mcp     string        // URL of the MCP endpoint
	admin   string        // URL of the admin listener, if it has one
}

// launch starts the program in a folder and asks it once.
func (prog program) launch(dir string) (s *service, l launch, err error) {
	s = &service{title: prog.title, cmd: exec.Command(prog.path, prog.args...), drained: make(chan struct{})}
	s.cmd.Dir, s.cmd.Env = dir, cleanEnv(os.Environ())
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, l, err
	}
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, l, err
	}
	defer time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() }).Stop()
	lines := bufio.NewScanner(stderr)
	ready := s.ready(lines)
	go func() {
		defer close(s.drained)
		_, _ = io.Copy(io.Discard, stderr) // must be read, or the service blocks
	}()
	if err = ready; err == nil {
		err = s.ask(prog.echoes)
	}
	l.took = time.Since(began)
	if err == nil {
		l.cpu, err = cpuTime(s.cmd.Process.Pid)
	}
	if err != nil {
		s.stop()
		return nil, l, fmt.Errorf("start of %s: %w", prog.title, err)
	}
	return s, l, nil
}

// ready waits until the service says where it listens.
func (s *service) ready(lines *bufio.Scanner) error {
	for lines.Scan() {
		var record struct{ Msg, MCP, Admin string }
		if json.Unmarshal(lines.Bytes(), &record) == nil && record.Msg == "service.ready" {
			s.mcp, s.admin = record.MCP, record.Admin
			return nil
		}
	}
	return errors.Join(errors.New("it does not say that it is ready"), lines.Err())
}

// ask sends one call, and checks the answer.
func (s *service) ask(echoes bool) error {
	m := render(scenario{kind: call, size: small})
	req, err := http.NewRequest(http.MethodPost, s.mcp, bytes.NewReader(m.body))
	if err != nil {
		return err
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": modernVersion, "Mcp-Method": m.method, "Mcp-Name": m.name,
	} {
		req.Header.Set(key, value)
	}
	resp, err := client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d: %.300q", resp.StatusCode, answer)
	case !echoes:
		return m.check(scenario{kind: call}, servers.ID(m.body), answer)
	case !bytes.Equal(answer, m.body):
		return fmt.Errorf("not what it was asked: %.300q", answer)
	}
	return nil
}

// scrape asks for the metrics, compressed, over a connection of its own.
func (s *service) scrape() error {
	transport := &http.Transport{DisableCompression: true} // the request asks for compression itself
	defer transport.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, s.admin+"/metrics", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1")
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err == nil && (resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "gzip") {
		err = fmt.Errorf("status %d, encoding %q", resp.StatusCode, resp.Header.Get("Content-Encoding"))
	}
	return err
}

// A memory is the resident memory of a process in bytes, and the part of it that are pages of
// its program file.
type memory struct{ resident, file float64 }

func (s *service) memory() (m memory, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return m, err
	}
	if m.resident, err = parseStatus(status, "VmRSS"); err != nil {
		return m, err
	}
	m.file, err = parseStatus(status, "RssFile")
	return m, err
}

// stop kills the service. No client waits for it.
func (s *service) stop() {
	_ = s.cmd.Process.Kill()
	<-s.drained
	_ = s.cmd.Wait() // it was killed
}
