package service_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// notReady waits until /readyz says no.
func (r *running) notReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		status, _ := r.get(t, "/readyz")
		return status == http.StatusServiceUnavailable
	}, patience, time.Millisecond)
	_, body := r.get(t, "/readyz")
	assert.Contains(t, body, "shutting down")
	status, _ := r.get(t, "/livez")
	assert.Equal(t, http.StatusOK, status)
}

func TestDrainLetsCallsFinishAndRefusesNewOnes(t *testing.T) {
	srv, g := newGated(t, false)
	r := start(t, srv, "--drain-timeout=1h")
	handler, result := r.enter(t, g)
	r.stop()
	r.notReady(t)

	require.Eventually(t, func() bool { return r.call("echo", `{"text":""}`).status == http.StatusServiceUnavailable },
		patience, time.Millisecond)
	refused := r.call("echo", `{"text":""}`)
	require.NoError(t, refused.err)
	assert.Equal(t, string(mcp.RejectShuttingDown), refused.Error.Data.Reason)
	assert.NotEmpty(t, refused.header.Get("Retry-After"))

	assert.NoError(t, handler.Err(), "the drain timeout has not passed")
	_, body := r.get(t, "/metrics")
	assert.NotEmpty(t, body, "the drain can be watched")
	close(g.open)
	assert.Equal(t, "opened", (<-result).text())
	require.NoError(t, r.wait(t))
}

func TestDrainTimeoutCancelsWithItsCause(t *testing.T) {
	srv, g := newGated(t, false, server.WithLimits(server.Limits{CleanupGrace: time.Hour}))
	r := start(t, srv, "--drain-timeout=1ms")
	handler, result := r.enter(t, g)
	r.stop()
	<-handler.Done()
	assert.ErrorIs(t, context.Cause(handler), mcp.ErrServerShutdown)
	assert.NoError(t, (<-result).err, "the caller gets an answer")
	require.NoError(t, r.wait(t))
}

func TestDrainNamesAbandonedHandlers(t *testing.T) {
	srv, g := newGated(t, true, server.WithLimits(server.Limits{CleanupGrace: time.Millisecond}))
	r := start(t, srv, "--drain-timeout=1ms")
	_, result := r.enter(t, g)
	r.stop()
	err := r.wait(t)
	assert.ErrorIs(t, err, server.ErrAbandoned)
	assert.ErrorContains(t, err, "gated")
	close(g.open)
	<-result // an answer only if it could be written within the grace
}
