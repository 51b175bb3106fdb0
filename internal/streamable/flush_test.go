package streamable_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A program may wrap the endpoint in a handler that hides Flush. Plain answers still work. The
// client and, once, the log learn that event streams do not.
func TestWriterWithoutFlushIsReported(t *testing.T) {
	var log bytes.Buffer
	f := newFake(t, limits.Limits{}, slog.New(slog.NewTextHandler(&log, nil)))
	srv := httptest.NewServer(http.TimeoutHandler(streamable.New(f.Core, streamable.Config{}), time.Minute, ""))
	defer srv.Close()
	do := func(method, body string, headers ...header) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		for _, h := range headers {
			setHeader(req, h)
		}
		res, err := srv.Client().Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res, string(text)
	}
	res, body := do("POST", legacy(1, "initialize", ""))
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, answer(1, "welcome"), body)
	sid := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	_, body = do("POST", legacy(2, "ping", "x"), sid)
	require.Equal(t, answer(2, ""), body, "the session lives")
	res, body = do("POST", modern(3, "progress:x"), modernHeaders("tools/call", "progress:x")...)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.Equal(t, answer(3, "progress:x"), body, "without its notification")

	wrong := "hides Flush"
	res, body = do("GET", "", sid, "Accept: text/event-stream")
	require.Equal(t, 500, res.StatusCode)
	require.Contains(t, body, wrong)
	res, body = do("POST", legacy(4, "ping", ""), sid, "Accept: text/event-stream")
	require.Equal(t, 500, res.StatusCode)
	require.Contains(t, body, wrong)

	c := f.Conserved()
	_, sent, _, lost := c.Totals()
	require.EqualValues(t, 3, sent)
	require.Zero(t, lost)
	require.Equal(t, map[mcp.RefuseReason]uint64{mcp.RefuseNoFlush: 2}, c.ExchangesRefused)
	require.Equal(t, 1, strings.Count(log.String(), "http.flush_unsupported"))
	require.Contains(t, log.String(), "timeoutWriter")
}

// A leavingWriter flushes when the client has left.
type leavingWriter struct {
	http.ResponseWriter
	gone    context.Context
	flushes chan<- struct{}
}

func (w *leavingWriter) FlushError() error {
	w.flushes <- struct{}{}
	<-w.gone.Done()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *leavingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A client may leave when it has its answer, and before the end of the chunk around it. That of a large answer
// is then not known to have come, and not known to be lost. That of a small one is: all of it waits for the flush.
func TestAnswerOfAClientThatLeavesBeforeTheFlush(t *testing.T) {
	for _, tt := range []struct {
		name   string
		size   int
		accept string
		reason mcp.DropReason
		has    bool // the client has the whole answer before it leaves
	}{
		{"small event", 100, "text/event-stream", mcp.DropBrokenPeer, false},
		{"event", 10_000, "text/event-stream", mcp.DropUnconfirmed, true},
		{"large event", 100_000, "text/event-stream", mcp.DropUnconfirmed, true},
		{"small answer", 100, "application/json", mcp.DropBrokenPeer, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, limits.Limits{})
			h, flushes, served := streamable.New(f.Core, streamable.Config{}), make(chan struct{}, 1), make(chan struct{})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(served)
				h.ServeHTTP(&leavingWriter{w, r.Context(), flushes}, r)
			}))
			defer srv.Close()
			c, err := net.Dial("tcp", srv.Listener.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			name := strings.Repeat("x", tt.size)
			req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL, strings.NewReader(modern(1, name)))
			require.NoError(t, err)
			for _, header := range append(modernHeaders("tools/call", name), "Content-Type: application/json", "Accept: "+tt.accept) {
				setHeader(req, header)
			}
			require.NoError(t, req.Write(c))
			if tt.has {
				res, err := http.ReadResponse(bufio.NewReader(c), req)
				require.NoError(t, err)
				event := "event: message\ndata: " + answer(1, name)
				got := make([]byte, len(event))
				_, err = io.ReadFull(res.Body, got)
				require.NoError(t, err)
				require.Equal(t, event, string(got))
			}
			<-flushes
			require.NoError(t, c.(*net.TCPConn).SetLinger(0)) // a reset
			require.NoError(t, c.Close())
			<-served
			require.EqualValues(t, 1, dropped(f.Conserved(), tt.reason))
		})
	}
}
