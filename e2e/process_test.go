package e2e

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A program describes a process to start.
type program struct {
	path string
	args []string
	env  []string // added to a clean environment
	dir  string
	// stdin and stdout are files for the program to use instead of pipes to the test.
	stdin, stdout *os.File
}

// A process is a program that runs in a process group of its own, which ends with
// the test at the latest.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser // nil if the program was given a file
	stdout *lines         // nil if the program was given a file
	stderr *lines
	done   chan struct{}      // closed when it has ended
	status syscall.WaitStatus // valid then
}

// start starts a program.
func start(t *testing.T, p program) *process {
	t.Helper()
	cmd := exec.Command(p.path, p.args...)
	cmd.Env, cmd.Dir = append(cleanEnv(), p.env...), p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithTests(cmd.SysProcAttr)
	proc := &process{cmd: cmd, done: make(chan struct{})}
	check := func(err error) {
		if err != nil {
			t.Fatalf("start %s: %v", p.path, err)
		}
	}
	var err error
	if p.stdin != nil {
		cmd.Stdin = p.stdin
	} else {
		proc.stdin, err = cmd.StdinPipe()
		check(err)
	}
	var stdout io.Reader
	if p.stdout != nil {
		cmd.Stdout = p.stdout
	} else {
		stdout, err = cmd.StdoutPipe()
		check(err)
	}
	stderr, err := cmd.StderrPipe()
	check(err)
	check(spawn(cmd))
	if stdout != nil {
		proc.stdout = readLines(stdout)
	}
	proc.stderr = readLines(stderr)
	go func() {
		// Not cmd.Wait, which would close our ends of the pipes under the readers.
		if state, err := cmd.Process.Wait(); err == nil {
			proc.status = state.Sys().(syscall.WaitStatus)
		}
		close(proc.done)
	}()
	t.Cleanup(func() { proc.kill(t) })
	return proc
}

// cleanEnv returns the environment without variables that configure a program under test.
func cleanEnv() (env []string) {
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "OTEL_") && !strings.HasPrefix(name, "VITRINE_") && !strings.HasSuffix(strings.ToLower(name), "_proxy") {
			env = append(env, e)
		}
	}
	return env
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

func spawn(cmd *exec.Cmd) error {
	result := make(chan error)
	spawner() <- func() { result <- cmd.Start() }
	return <-result
}

// signal sends a signal to the process alone.
func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("send %v: %v", sig, err)
	}
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// exit waits for the end of the process and returns how it ended.
func (p *process) exit(t *testing.T) syscall.WaitStatus {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines, for the log
		select {
		case <-p.done:
		case <-time.After(5 * time.Second):
		}
		t.Fatalf("process %d did not end:\n%s", p.cmd.Process.Pid, p.stderr)
	}
	return p.status
}

// kill kills the rest of the process group. Nothing survives this signal, so that it waits only for
// the leader.
func (p *process) kill(t *testing.T) {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // an error: the group has ended
	<-p.done
	if t.Failed() {
		t.Logf("standard error of %s:\n%s", p.cmd.Path, p.stderr)
	}
}
