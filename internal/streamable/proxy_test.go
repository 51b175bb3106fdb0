package streamable_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/session/sessiontest"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
)

// addresses are what an authenticator and the core were told of a caller.
type addresses struct{ caller, peer, conn string }

// told returns the addresses of one call with a header.
func told(t *testing.T, cfg streamable.Config, logger *slog.Logger, headers ...header) (got addresses) {
	t.Helper()
	e := newEndpointOf(t, sessiontest.NewOf(t, session.Config{
		Logger: logger,
		Authenticator: auth.AuthenticatorFunc(func(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
			got.caller, got.peer = caller.RemoteAddr, caller.PeerAddr
			return nil, nil
		}),
		Admission: func(_ context.Context, r *session.Request) error {
			got.conn = r.Conn.RemoteAddr
			return nil
		},
	}), http1, cfg)
	res, body := e.call("echo", headers...)
	require.Equal(t, 200, res.StatusCode, body)
	e.Conserved()
	return got
}

func TestForwardedAddressIsThatOfTheCallerBehindATrustedProxy(t *testing.T) {
	const client = "203.0.113.9"
	trusting := streamable.Config{TrustedProxies: []string{"127.0.0.0/8", "::1"}}
	for _, h := range []header{"X-Forwarded-For: 198.51.100.1, " + client, `Forwarded: for="` + client + `:4711"`} {
		got := told(t, trusting, nil, h)
		require.Equal(t, client, got.conn)
		require.Equal(t, client, got.caller)
		require.True(t, strings.HasPrefix(got.peer, "127.0.0.1:"), got.peer)

		got = told(t, streamable.Config{TrustedProxies: []string{"10.0.0.0/8"}}, nil, h)
		require.Equal(t, got.peer, got.conn, "the proxy is not trusted")
		require.Equal(t, got.peer, got.caller)
	}
	got := told(t, trusting, nil)
	require.Equal(t, got.peer, got.conn)
}

func TestAnUntrustedProxyIsReportedOnce(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	e := newEndpointOf(t, sessiontest.NewOf(t, session.Config{Logger: logger}), http1, streamable.Config{})
	for range 3 {
		e.call("echo", "X-Forwarded-For: 203.0.113.9")
	}
	e.call("echo")
	e.Conserved()
	require.Equal(t, 1, strings.Count(log.String(), "msg=proxy.untrusted"), log.String())
	require.Contains(t, log.String(), "peer=127.0.0.1:")
	require.NotContains(t, log.String(), "203.0.113.9", "what the header says is the sender's")
}

func TestTrustedProxiesThatAreNoNetworksAreAnError(t *testing.T) {
	require.ErrorContains(t, streamable.Config{TrustedProxies: []string{"proxy.example"}}.Check(), "proxy.example")
	require.ErrorContains(t, streamable.Config{TrustedProxies: []string{"0.0.0.0/0"}}.Check(), "all addresses")
	require.Panics(t, func() {
		streamable.New(newFake(t, limits.Limits{}).Core, streamable.Config{TrustedProxies: []string{""}})
	})
}
