package service_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// adminPort returns the port of the admin listener.
func (r *running) adminPort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(r.Admin[len("http://"):])
	require.NoError(t, err)
	return port
}

// The same program asks the one that runs, by flags or by the environment that both
// have, and starts nothing.
func TestHealthCheck(t *testing.T) {
	srv, g := newGated(t, false)
	var away atomic.Bool
	srv.AddReadiness("database", func(context.Context) error {
		if away.Load() {
			return errors.New("away")
		}
		return nil
	})
	r := start(t, srv, "--drain-timeout=1h")
	port := r.adminPort(t)

	for _, c := range []struct{ page, addr, want string }{
		{"livez", "127.0.0.1:" + port, "ok\n"},
		{"readyz", "127.0.0.1:" + port, "ready\n"},
		{"readyz", ":" + port, "ready\n"},
		{"readyz", "0.0.0.0:" + port, "ready\n"},
		{"readyz", "[::]:" + port, "ready\n"},
	} {
		said, err := withoutStart(t, []string{"--healthcheck", c.page, "--admin-addr", c.addr}, nil)
		require.NoError(t, err, c)
		assert.Equal(t, c.want, said, c)
		said, err = withoutStart(t, []string{"--healthcheck=" + c.page}, map[string]string{
			"VITRINE_ADMIN_ADDR": c.addr, "VITRINE_HEALTHCHECK": "a variable would keep every process from serving"})
		require.NoError(t, err, c)
		assert.Equal(t, c.want, said, c)
	}

	ask := func(page string) error {
		_, err := withoutStart(t, []string{"--healthcheck=" + page, "--admin-addr=127.0.0.1:" + port}, nil)
		return err
	}
	away.Store(true)
	assert.ErrorContains(t, ask("readyz"), "503 Service Unavailable: not ready:\ndatabase: away")
	assert.NoError(t, ask("livez"), "what others lack is no reason to restart this one")
	away.Store(false)

	_, result := r.enter(t, g)
	r.stop()
	r.notReady(t)
	assert.ErrorContains(t, ask("readyz"), "shutting down")
	assert.NoError(t, ask("livez"))
	close(g.open)
	<-result
	require.NoError(t, r.wait(t))
	assert.Error(t, ask("livez"), "nobody is there")
}

func TestHealthCheckWithoutAProcess(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--admin-addr=off", `nobody can be asked at "off"`},
		{"--admin-addr=127.0.0.1:0", "VITRINE_ADMIN_ADDR"},
		{"--healthcheck=healthz", "want livez or readyz"},
	} {
		said, err := withoutStart(t, []string{"--healthcheck=livez", c.flags}, nil)
		assert.ErrorContains(t, err, c.want)
		assert.Empty(t, said)
	}
}
