package streamable_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A client that does not read and closes its output has gone. Its handler is cancelled at
// once, although a write blocks and may do so for an hour.
func TestHalfCloseEndsABlockedWrite(t *testing.T) {
	f := newFake(t, limits.Limits{WriteTimeout: time.Hour, NotifyTimeout: time.Hour, KeepAlive: time.Hour})
	var said atomic.Int64
	f.Routes["tools/call"].Handle = func(ctx context.Context, r *session.Request) (mcp.Result, error) {
		text := fmt.Appendf(nil, `{"data":%q}`, strings.Repeat("x", 64<<10))
		for ctx.Err() == nil {
			_ = r.Notify("notifications/message", text, "")
			said.Add(1)
		}
		f.Ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}
	srv := httptest.NewServer(streamable.New(f.Core, streamable.Config{}))
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	body := modern(1, "x")
	_, err = io.WriteString(c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	require.NoError(t, err)
	for last, same := int64(-1), 0; same < 20; time.Sleep(10 * time.Millisecond) { // until nothing moves any more
		if n := said.Load(); n != last {
			last, same = n, 0
		} else if n > 0 {
			same++
		}
	}
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	select {
	case cause := <-f.Ended:
		require.ErrorIs(t, cause, &mcp.CancelError{Cause: mcp.CauseClientDisconnect})
	case <-time.After(20 * time.Second):
		t.Error("the handler is not told")
	}
}
