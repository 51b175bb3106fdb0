package server_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// An eventStream is the event stream that an HTTP exchange has become.
type eventStream struct {
	*http.Response
	t   *testing.T
	in  *bufio.Reader
	raw *bytes.Buffer // what was read
}

// openStream sends a request and leaves its response open until the end of the test.
func openStream(t *testing.T, method, url, body string, headers ...string) *eventStream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() {
		cancel()
		res.Body.Close()
	})
	s := &eventStream{Response: res, t: t, raw: &bytes.Buffer{}}
	s.in = bufio.NewReader(io.TeeReader(res.Body, s.raw))
	return s
}

// next returns the data of the next event that has any.
func (s *eventStream) next() string {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		require.NoError(s.t, err, "the stream has ended: %s", s.raw)
		if data, found := strings.CutPrefix(line, "data: "); found && data != "\n" {
			_, err := s.in.ReadString('\n') // the end of the event
			require.NoError(s.t, err)
			return strings.TrimSuffix(data, "\n")
		}
	}
}

// ends checks that the stream has nothing more.
func (s *eventStream) ends() {
	s.t.Helper()
	rest, err := io.ReadAll(s.in)
	require.NoError(s.t, err)
	require.Empty(s.t, string(rest))
}

// halfPipe is a pipe of which one end can be closed alone.
type halfPipe struct {
	io.ReadCloser
	io.Writer
}

func (halfPipe) SetWriteDeadline(time.Time) error { return nil }

// A lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// conserved shuts a server down and checks that no answer was lost from the books.
func conserved(t *testing.T, srv *server.Server) {
	t.Helper()
	require.NoError(t, srv.Shutdown(context.Background()))
	snap := srv.Core().Snapshot()
	require.Empty(t, snap.Requests)
	require.Empty(t, snap.Subscriptions)
	require.Empty(t, snap.Sessions)
	admitted, sent, stored, dropped := snap.Counters.Totals()
	require.Equal(t, admitted, sent+stored+dropped, "admitted = sent + stored + dropped")
	require.Zero(t, srv.Joined(), "somebody has not left")
}

// subscribed waits until so many subscriptions are open.
func subscribed(t *testing.T, srv *server.Server, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(srv.Core().Snapshot().Subscriptions) == n }, wait, tick)
}

// How long, and how often, a test looks for what happens soon on real connections.
const (
	wait = time.Minute
	tick = time.Millisecond
)
