package attack

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// onPipes starts the victim on stdin and stdout.
func onPipes(t *testing.T, args ...string) *target {
	t.Helper()
	s := newTarget("victim", append([]string{"--stdio", "--log-format", "json"}, args...)...)
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if s.stdout, err = s.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if s.stderr, err = s.cmd.StderrPipe(); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	return s
}

// A client that closes the log of its server cannot kill it with a log line.
func TestALogLineToNobodyEndsNothing(t *testing.T) {
	t.Parallel()
	s := onPipes(t, "--log-level", "debug")
	in := bufio.NewReader(s.stdout)
	ask := func(id int) {
		t.Helper()
		frame := call{tool: "echo", arguments: `{"text":"alive"}`}.frame(id, true)
		if _, err := io.WriteString(s.stdin, "garbage that is logged\n"+frame+"\n"); err != nil {
			t.Fatalf("the server reads no more: %v", err)
		}
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatalf("the server has ended: %v", err)
			}
			if strings.Contains(line, `"alive"`) && strings.Contains(line, fmt.Sprintf(`"id":%d`, id)) {
				return
			}
		}
	}
	if line, err := bufio.NewReader(s.stderr).ReadString('\n'); err != nil {
		t.Fatalf("%q %v", line, err)
	}
	s.stderr.Close()
	for id := range 50 {
		ask(id)
	}
	s.stdin.Close()
	s.endsInOrder(t)
}

// endsInOrder checks that the process ends by itself with the status 0.
func (s *target) endsInOrder(t *testing.T) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Fatal("the server lives on")
	}
	if s.state == nil || !s.state.Success() {
		t.Errorf("the server ended with %v", s.state)
	}
}

// A client that does not read, and then closes the input of its server, does not keep it alive: the
// server does not wait until it can write.
func TestAClientThatDoesNotReadKeepsNoServerAlive(t *testing.T) {
	t.Parallel()
	s := onPipes(t, "--write-timeout", "10m")
	go io.Copy(io.Discard, s.stderr)
	for id := range 20 { // 20 MB, of which the pipe takes 64 KiB
		frame := call{tool: "big", arguments: `{"bytes":1000000}`}.frame(id, true)
		if _, err := io.WriteString(s.stdin, frame+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(300 * time.Millisecond) // until the server waits for the pipe
	s.stdin.Close()
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Error("the server lives on without its client")
	}
}

// Frames that never end, and a flood of broken ones, end the connection and not more.
func TestBrokenFramesOnPipesEnd(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a line without an end": strings.Repeat("[", 3*maxFrame),
		"broken lines":          strings.Repeat("{]\n", 10_000),
		"empty lines":           strings.Repeat("\n", 1_000_000),
		"controls":              strings.Repeat("\x00\x1b\n", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onPipes(t)
			go io.Copy(io.Discard, s.stdout)
			go io.Copy(io.Discard, s.stderr)
			_, _ = io.WriteString(s.stdin, text) // the server may close its end
			if s.alive() {
				if peak := s.memory(t, "VmHWM"); peak > 100<<20 {
					t.Errorf("the server has taken %d MiB", peak>>20)
				}
			}
			s.stdin.Close()
			select {
			case <-s.ended:
			case <-time.After(patience):
				t.Error("the server lives on without its client")
			}
		})
	}
}
