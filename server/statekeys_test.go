package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// Keys are replaced while the server serves. Sessions and states of keys that stay are served on, those of
// keys that were removed are refused, also where the server has an object of the session, and the first new
// key seals at once.
func TestStateKeysAreReplacedWhileServing(t *testing.T) {
	old, both, fresh := [][]byte{stateKey(1)}, [][]byte{stateKey(2), stateKey(1)}, [][]byte{stateKey(2)}
	srv := newReplica(t)
	addTwo(srv)
	session := open(t, srv)
	p := dial(t, srv)
	state := func() string {
		asked, _ := round(t, p, `"name":"two","arguments":{}`)
		return asked.RequestState
	}
	call := legacy(2, "tools/call", callPeer)
	before := state()
	goOn := retry(`"name":"two","arguments":{}`, before, "one", `{"action":"accept","content":{"v":"a"}}`)

	require.NoError(t, srv.SetStateKeys(both...))
	require.Equal(t, 200, post(srv, call, session).Code)
	asked, answer := round(t, p, goOn)
	require.Equal(t, "input_required", asked.ResultType, answer)
	newer := open(t, srv)
	require.Equal(t, 404, post(newReplica(t, server.WithStateKeys(old...)), call, newer).Code, "the new key seals")
	require.Equal(t, 200, post(newReplica(t, server.WithStateKeys(fresh...)), call, newer).Code)

	require.ErrorContains(t, srv.SetStateKeys(stateKey(3)[1:]), "state key 1 has 31 bytes")
	require.Error(t, srv.SetStateKeys())
	require.Equal(t, 200, post(srv, call, session).Code, "bad keys change nothing")

	require.NoError(t, srv.SetStateKeys(fresh...))
	require.Equal(t, 404, post(srv, call, session).Code, "no key opens it any more")
	require.Equal(t, 200, post(srv, call, newer).Code)
	_, answer = round(t, p, goOn)
	refusedState(t, mcp.StateForeign, answer)
}
