//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSIGTERMLetsAOneSecondCallFinish(t *testing.T) {
	cmd, mcp, admin, log := serving(t)
	answer := begin(t, mcp, admin, "sleep", `{"ms":1000}`)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	resp := <-answer
	require.NotNil(t, resp)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "slept for 1s", decode(t, body).Result.Content[0].Text)
	text := log()
	require.NoError(t, cmd.Wait(), text)
	assert.Contains(t, text, "drain.begin")
	assert.Contains(t, text, "drain.end")
}

func TestSecondSIGTERMEndsALongCall(t *testing.T) {
	cmd, mcp, admin, log := serving(t, "--drain-timeout=1h")
	answer := begin(t, mcp, admin, "sleep", `{"ms":600000}`)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Eventually(t, func() bool { return !ready(admin) }, patience, tick)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	if resp := <-answer; resp != nil {
		resp.Body.Close()
	}
	assert.Contains(t, log(), "drain.hurry")
	_ = cmd.Wait() // an error if the call was slower than the end
}

func TestSIGTERMDrainsStdio(t *testing.T) {
	cmd := program(t, "serve", "--stdio")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())

	// The echo is answered after the sleep was read: then it is in flight.
	_, err = io.WriteString(stdin, request(1, "sleep", `{"ms":1000}`)+"\n"+request(2, "echo", `{"text":"x"}`)+"\n")
	require.NoError(t, err)
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	assert.Equal(t, 2, decode(t, lines.Bytes()).ID)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.True(t, lines.Scan())
	assert.Equal(t, "slept for 1s", decode(t, lines.Bytes()).Result.Content[0].Text)
	assert.False(t, lines.Scan())
	require.NoError(t, cmd.Wait(), stderr.String())
}
