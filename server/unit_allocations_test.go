//go:build !race

package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/server"
)

// A memoryRig is a server over HTTP, to measure what one unit of a limit takes of its memory.
type memoryRig struct {
	t     *testing.T
	srv   *server.Server
	http  *httptest.Server
	conns []net.Conn
}

func newMemoryRig(t *testing.T, l server.Limits) *memoryRig {
	srv := newServer(t, server.WithLimits(l), server.WithTasks(server.Tasks{}))
	block := func(ctx context.Context, call *server.Call, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	server.AddTool(srv, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	server.AddTool(srv, server.Tool{Name: "block"}, block)
	server.AddTool(srv, server.Tool{Name: "task", Task: server.TaskRequired}, func(ctx context.Context, call *server.Call, in struct{}) (string, error) {
		ctx, err := call.Detach(ctx, server.TaskOptions{})
		if err != nil {
			return "", err
		}
		return block(ctx, call, in)
	})
	r := &memoryRig{t: t, srv: srv, http: httptest.NewServer(srv.Handler())}
	t.Cleanup(func() {
		for _, c := range r.conns {
			c.Close()
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = srv.Shutdown(ended)
		r.http.Close()
	})
	return r
}

// send sends a request over a new connection.
func (r *memoryRig) send(body string, headers ...string) net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.http.Listener.Addr().String())
	require.NoError(r.t, err)
	r.conns = append(r.conns, conn)
	r.sendOver(conn, body, headers...)
	return conn
}

func (r *memoryRig) sendOver(conn net.Conn, body string, headers ...string) {
	r.t.Helper()
	_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"%sContent-Length: %d\r\n\r\n%s", r.http.Listener.Addr(), strings.Join(append(headers, ""), "\r\n"), len(body), body)
	require.NoError(r.t, err)
}

// call sends a modern call.
func (r *memoryRig) call(tool, arguments string) net.Conn {
	return r.send(modern(1, "tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments)),
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: "+tool)
}

// answered reads the response of a connection to its end.
func (r *memoryRig) answered(conn net.Conn) *http.Response {
	r.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(r.t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(r.t, err)
	return resp
}

// inFlight waits until so many requests are in a state.
func (r *memoryRig) inFlight(state string, n int) {
	require.Eventually(r.t, func() bool {
		found := 0
		for _, info := range r.srv.Core().Snapshot().Requests {
			if info.State == state {
				found++
			}
		}
		return found >= n
	}, 20*time.Second, time.Millisecond)
}

// What one unit of a limit takes is no more than what docs/limits.md says: with a connection of
// its own, if it needs one. Stacks count after the collections that shrink them: near the memory
// limit of the runtime there are many.
func TestUnitAllocationsAreBounded(t *testing.T) {
	const n = 400
	cost := func(name string) int {
		parts := limits.Parts()
		return parts[slices.IndexFunc(parts, func(p limits.Part) bool { return p.Name == name })].Cost
	}
	connection := cost(limits.PartConnections)
	for name, tt := range map[string]struct {
		may    int
		limits server.Limits
		units  func(r *memoryRig)
	}{
		limits.PartConnections: {connection, server.Limits{}, func(r *memoryRig) {
			for range n {
				r.answered(r.call("echo", `{"text":"`+strings.Repeat("x", 3000)+`"}`))
			}
		}},
		limits.PartRunning: {connection + cost(limits.PartRunning), server.Limits{}, func(r *memoryRig) {
			for range n {
				r.call("block", "{}")
			}
			r.inFlight("running", n)
		}},
		limits.PartWaiting: {connection + cost(limits.PartWaiting), server.Limits{MaxInFlightTotal: 1}, func(r *memoryRig) {
			for range n + 1 {
				r.call("block", "{}")
			}
			r.inFlight("queued", n)
		}},
		limits.PartSubscriptions: {connection + cost(limits.PartSubscriptions), server.Limits{}, func(r *memoryRig) {
			for range n {
				r.send(listenTo(1, `{"toolsListChanged":true}`), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen")
			}
			require.Eventually(r.t, func() bool { return len(r.srv.Core().Snapshot().Subscriptions) == n }, 20*time.Second, time.Millisecond)
		}},
		limits.PartSubscribed: {connection + cost(limits.PartSubscriptions) + 500*(512+len("item://i000/000")), server.Limits{MaxSubscribedBytes: 1 << 30}, func(r *memoryRig) {
			server.AddResourceTemplate(r.srv, server.ResourceTemplate{Name: "items", URITemplate: "item://{+path}"},
				func(context.Context, *server.Call, string, map[string]string) (string, error) { return "", nil })
			for i := range n {
				var uris []string
				for j := range 500 {
					uris = append(uris, fmt.Sprintf(`"item://i%03d/%03d"`, i, j))
				}
				r.send(listenTo(1, `{"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`), "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen")
			}
			require.Eventually(r.t, func() bool { return r.srv.Core().Subscribed().Usage().Used == n*500*(512+len("item://i000/000")) }, 20*time.Second, time.Millisecond)
		}},
		limits.PartSessions: {cost(limits.PartSessions), server.Limits{}, func(r *memoryRig) {
			most := strings.Repeat(`{"a":1},`, 20) // maps take most, and a text of 9 KB the rest
			for range n {
				conn := r.send(legacy("init", "initialize", `"protocolVersion":"2025-11-25","capabilities":{"experimental":{"a":{"b":[`+most+`{}]}}},"clientInfo":{"name":"`+strings.Repeat("n", 6000)+`","version":"9"}`))
				id := r.answered(conn).Header.Get("Mcp-Session-Id")
				r.sendOver(conn, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id: "+id)
				r.answered(conn)
				conn.Close()
			}
		}},
		limits.PartDetached: {cost(limits.PartDetached), server.Limits{}, func(r *memoryRig) {
			for range n {
				conn := r.send(strings.Replace(modern(1, "tools/call", `"name":"task","arguments":{}`),
					`clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1),
					"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: task")
				r.answered(conn)
				conn.Close()
			}
			require.Len(r.t, r.srv.Core().Snapshot().Detached, n)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMemoryRig(t, tt.limits)
			before := memoryInUse()
			tt.units(r)
			took := (memoryInUse() - before) / n
			for tries := 0; took > tt.may && tries < 10; tries++ { // a goroutine that still runs keeps a large stack
				took = (memoryInUse() - before) / n
			}
			t.Logf("%d bytes of %d", took, tt.may)
			require.LessOrEqual(t, took, tt.may)
			require.Greater(t, took, tt.may/8)
		})
	}
}

// memoryInUse returns the bytes of heap and stacks.
func memoryInUse() int {
	for range 4 { // stacks shrink by half each time
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
