package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
)

// Each member is a message of its own, and they share what their frame has.
func TestSplitBatch(t *testing.T) {
	const ping, x = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"x"}`
	conn := &session.Conn{Transport: "memory"}
	members, bad := session.SplitBatch([]byte(" [ "+ping+" , 7,"+x+"]"), wire.Limits{}, session.Inbound{Conn: conn})
	require.Nil(t, bad)
	require.Len(t, members, 3)
	require.Nil(t, members[0].Bad)
	require.Equal(t, "ping", members[0].In.Method)
	require.Equal(t, len(ping), members[0].In.Bytes)
	require.Nil(t, members[1].In)
	require.Equal(t, wire.ReasonNotJSONRPC, members[1].Bad.Reason)
	require.Equal(t, "x", members[2].In.Method)
	require.Equal(t, len(x), members[2].In.Bytes)
	require.Same(t, conn, members[2].In.Conn)

	members, bad = session.SplitBatch([]byte("[]"), wire.Limits{}, session.Inbound{})
	require.Nil(t, members)
	require.Equal(t, wire.ReasonBatch, bad.Reason)
}
