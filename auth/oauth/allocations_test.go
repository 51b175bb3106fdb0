//go:build !race

package oauth_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A token that is remembered, and a request without one, cost no allocation.
func TestAllocationsOfKnownTokens(t *testing.T) {
	key := newSigner("k1", "ES256")
	rs := newServer(t, newIssuer(key), nil)
	known := bearer(key.sign(goodClaims(), nil))
	admitted(t, rs, known)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = rs.Authenticate(context.Background(), known) }))
	missing := &auth.Caller{Transport: "http", Header: http.Header{}}
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = rs.Authenticate(context.Background(), missing) }))
}
