package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// However many clients come, and whatever they say of themselves, what is remembered is bounded.
func TestRememberedClientsAreBounded(t *testing.T) {
	var c clients
	ask := func(info string) {
		in := &Inbound{Era: mcp.Modern}
		in.Meta.ClientInfo = []byte(info)
		name, version := c.of(in, nil)
		wantName, wantVersion := ClientOf(in, nil)
		require.Equal(t, wantName, name)
		require.Equal(t, wantVersion, version)
	}
	for i := range 3 * maxClients {
		ask(fmt.Sprintf(`{"name":"client %d","version":"1"}`, i))
		require.LessOrEqual(t, len(c.known), maxClients)
	}
	ask(`{"name":"` + strings.Repeat("x", maxClientInfo) + `"}`)
	for info := range c.known {
		require.LessOrEqual(t, len(info), maxClientInfo)
	}
}
