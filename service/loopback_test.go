package service_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/service"
)

// By default a service listens on the loopback interface only.
func TestDefaultsAreLoopback(t *testing.T) {
	cfg := service.DefaultConfig()
	for _, addr := range []string{cfg.Addr, cfg.AdminAddr} {
		host, _, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		assert.True(t, net.ParseIP(host).IsLoopback(), addr)
	}
}
