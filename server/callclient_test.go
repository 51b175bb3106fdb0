package server_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// addAsk adds a tool that asks the client, and returns what CallClient returned.
func addAsk(srv *server.Server, method string, params any) (<-chan jsontext.Value, <-chan error) {
	answers, errs := make(chan jsontext.Value, 1), make(chan error, 1)
	server.AddTool(srv, server.Tool{Name: "ask"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
		answer, err := c.CallClient(ctx, method, params)
		answers <- answer
		errs <- err
		return "asked", err
	})
	return answers, errs
}

func TestCallClient(t *testing.T) {
	const asked = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
	start := func(t *testing.T, method string, params any) (*rawPipe, <-chan jsontext.Value, <-chan error) {
		srv := newServer(t)
		answers, errs := addAsk(srv, method, params)
		p := dial(t, srv)
		p.initialize("2025-06-18") // declares roots alone
		p.send(legacy(7, "tools/call", call("ask", `{}`)))
		return p, answers, errs
	}
	t.Run("answer", func(t *testing.T) {
		p, answers, errs := start(t, mcp.MethodRootsList, nil)
		require.JSONEq(t, asked, p.recv())
		p.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		require.JSONEq(t, result(7, `"content":[{"type":"text","text":"asked"}]`), p.recv())
		require.NoError(t, <-errs)
		require.JSONEq(t, `{"roots":[]}`, string(<-answers))
	})
	t.Run("params", func(t *testing.T) {
		p, _, _ := start(t, mcp.MethodPing, map[string]string{"k": "v"})
		require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"k":"v"}}`, p.recv())
		p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		require.Contains(t, p.recv(), `"asked"`)
	})
	t.Run("params that do not encode", func(t *testing.T) {
		p, _, errs := start(t, mcp.MethodPing, func() {})
		require.Contains(t, p.recv(), `"isError":true`)
		require.ErrorContains(t, <-errs, "encode the params of ping")
	})
	t.Run("error of the client", func(t *testing.T) {
		p, _, errs := start(t, mcp.MethodRootsList, nil)
		p.recv()
		p.send(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no roots","data":[1]}}`)
		require.Contains(t, p.recv(), `"isError":true`, "it is no error of the server's own protocol")
		var failed *mcp.ClientError
		require.ErrorAs(t, <-errs, &failed)
		require.Equal(t, &mcp.ClientError{Code: -32601, Message: "no roots", Data: jsontext.Value(`[1]`)}, failed)
	})
	for _, method := range []string{mcp.MethodSamplingCreateMessage, mcp.MethodElicitationCreate} {
		t.Run("not declared "+method, func(t *testing.T) {
			p, _, errs := start(t, method, nil)
			require.Contains(t, p.recv(), `"isError":true`, "nothing was sent to the client")
			err := <-errs
			require.ErrorIs(t, err, mcp.ErrNotDeclared)
			require.ErrorContains(t, err, method)
		})
	}
	t.Run("modern", func(t *testing.T) {
		srv := newServer(t)
		_, errs := addAsk(srv, mcp.MethodRootsList, nil)
		require.Contains(t, dial(t, srv).ask(modern(1, "tools/call", call("ask", `{}`))), `"isError":true`)
		require.ErrorIs(t, <-errs, mcp.ErrNoBackChannel)
	})
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, _, errs := start(t, mcp.MethodRootsList, nil)
			p.recv()
			p.send(cancelled(7))
			err := <-errs
			require.ErrorIs(t, err, mcp.ErrClientCancelled)
			require.Contains(t, p.recv(), "notifications/cancelled", "the client is told that nobody waits any more")
			p.silent()
		})
	})
}
