//go:build unix

package service_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(os.Getpid(), sig))
}

func TestSIGTERMDrains(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv, "--drain-timeout=1h")
	_, result := r.enter(t, g)
	signal(t, syscall.SIGTERM)
	r.notReady(t)
	close(g.open)
	assert.Equal(t, "opened", (<-result).text())
	require.NoError(t, r.wait(t))
	assert.Contains(t, r.stderr.String(), "terminated")
}

// While the shutdown delay lasts, requests are served; a signal ends it.
func TestShutdownDelay(t *testing.T) {
	srv, _ := newGated(t, false)
	r := start(t, srv, "--shutdown-delay=1h")
	r.stop()
	r.notReady(t)
	assert.Equal(t, "still here", r.call("echo", `{"text":"still here"}`).text())
	signal(t, syscall.SIGINT)
	_ = r.wait(t) // an error if the call was just about to return
}

func TestSecondSignalEndsAllPatience(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv, "--drain-timeout=1h")
	handler, result := r.enter(t, g)
	signal(t, syscall.SIGTERM)
	r.notReady(t)
	signal(t, syscall.SIGTERM)
	<-handler.Done()
	<-result
	_ = r.wait(t) // an error if the handler was slower than the end
	assert.Contains(t, r.stderr.String(), "drain.hurry")
}
