package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Nothing wakes a write to a terminal whose reader has stopped, and it has no deadline.
func TestEndOfInputEndsAServerWhoseTerminalIsNotRead(t *testing.T) {
	cmd := program(t, "serve", "--stdio")
	reader, terminal := openTerminal(t)
	defer reader.Close()
	cmd.Stdout = terminal
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, terminal.Close())
	_, err = io.WriteString(stdin, request(1, "echo", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 1<<20)))+"\n")
	require.NoError(t, err)
	_, err = reader.Read(make([]byte, 1)) // the answer is being written
	require.NoError(t, err)
	require.NoError(t, stdin.Close())
	closed := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
		assert.Less(t, time.Since(closed), 3*time.Second)
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		t.Fatal("it lives on")
	}
}

// openTerminal returns both ends of a new pseudo-terminal.
func openTerminal(t *testing.T) (reader, terminal *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	raw, err := reader.SyscallConn()
	require.NoError(t, err)
	var number int
	require.NoError(t, raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return reader, terminal
}
