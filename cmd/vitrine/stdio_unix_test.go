//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client may close standard error. Then log lines are lost, and nothing else: by default a write
// to it kills a Go program.
func TestClosedStandardErrorDoesNotEndTheServer(t *testing.T) {
	for name, end := range map[string]func(stdin io.Closer, p *os.Process) error{
		"end of input": func(stdin io.Closer, _ *os.Process) error { return stdin.Close() },
		"signal":       func(_ io.Closer, p *os.Process) error { return p.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			cmd := program(t, "serve", "--stdio", "--log-level=debug")
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, stderr.Close()) // before the first line of the log
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(stdout)
			for id := range 3 {
				_, err := io.WriteString(stdin, "no message\n"+request(id, "echo", `{"text":"hello"}`)+"\n")
				require.NoError(t, err)
				require.True(t, lines.Scan(), "it has died")
				require.Contains(t, lines.Text(), "-32700")
				require.True(t, lines.Scan(), "it has died")
				require.Equal(t, "hello", decode(t, lines.Bytes()).Result.Content[0].Text)
			}
			require.NoError(t, end(stdin, cmd.Process))
			require.NoError(t, cmd.Wait(), "the last lines of the log come after the connection")
		})
	}
}

// The same for a server over HTTP whose log collector has gone.
func TestClosedStandardErrorDoesNotEndAServerOverHTTP(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := program(t, "serve", "--addr=127.0.0.1:0", "--admin-addr=off", "--log-level=debug", "--shutdown-delay=1ms")
	cmd.Stderr = w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		if strings.Contains(line, "mcpServers") {
			break
		}
	}
	require.NoError(t, r.Close())
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

// A client that reads nothing and closes its side must not wait long for the end of the server: it
// kills a server that lives on for two seconds.
func TestEndOfInputEndsAServerWhoseOutputIsNotRead(t *testing.T) {
	cmd := program(t, "serve", "--stdio")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd.Stdout = w
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	text, err := json.Marshal(strings.Repeat("x", 1<<20)) // more than a pipe holds
	require.NoError(t, err)
	for id := range 3 {
		_, err := io.WriteString(stdin, request(id, "echo", fmt.Sprintf(`{"text":%s}`, text))+"\n")
		require.NoError(t, err)
	}
	_, err = r.Read(make([]byte, 1)) // the first answer is being written
	require.NoError(t, err)
	require.NoError(t, stdin.Close())
	closed := time.Now()
	_ = cmd.Wait()
	assert.Less(t, time.Since(closed), 2*time.Second, stderr.String())
	t.Logf("ended after %v; %s", time.Since(closed), stderr.String())
}
