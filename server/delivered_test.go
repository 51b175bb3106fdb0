package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// A client that closes its connection as soon as it has the whole answer has got the answer: none
// of these is dropped.
func TestAnswersThatClientsHaveAreSent(t *testing.T) {
	const calls = 100
	for _, events := range []bool{false, true} {
		t.Run(fmt.Sprint("events ", events), func(t *testing.T) {
			srv := server.New("delivered", "1")
			type size struct{ N int }
			server.AddTool(srv, server.Tool{Name: "large"}, func(_ context.Context, call *server.Call, in size) (string, error) {
				if events {
					if err := call.Progress(1, 2, ""); err != nil {
						return "", err
					}
				}
				return strings.Repeat("x", in.N), nil
			})
			endpoint := httptest.NewServer(srv.Handler())
			for i := range calls {
				callAndLeave(t, endpoint.Listener.Addr().String(), 30_000+i*4_000)
			}
			endpoint.Close() // returns when all exchanges are over
			counters := srv.Core().Snapshot().Counters
			_, sent, stored, dropped := counters.Totals()
			require.Equal(t, []uint64{calls, 0, 0}, []uint64{sent, stored, dropped}, "sent, stored, dropped")
		})
	}
}

// callAndLeave reads the answer to its end, and closes the connection at once.
func callAndLeave(t *testing.T, addr string, size int) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"large","arguments":{"N":%d},`+
		`"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, size)
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: large\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	if resp.ContentLength > 0 {
		_, err := io.CopyN(io.Discard, resp.Body, resp.ContentLength)
		require.NoError(t, err)
		return
	}
	events := bufio.NewReader(resp.Body)
	for answered := false; ; {
		line, err := events.ReadString('\n')
		require.NoError(t, err)
		if answered && line == "\n" {
			return
		}
		answered = answered || strings.Contains(line, `"content"`)
	}
}
