package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// An eventLog is an event store of a user: it keeps everything, and can be out of order.
type eventLog struct {
	mu      sync.Mutex
	broken  bool
	events  []store.Event
	deleted []string
}

func (l *eventLog) with(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return errors.New("out of order")
	}
	f()
	return nil
}

func (l *eventLog) Append(_ context.Context, _ string, e store.Event) error {
	return l.with(func() { l.events = append(l.events, e) })
}

func (l *eventLog) After(_ context.Context, _, stream string, seq uint64) (events []store.Event, err error) {
	err = l.with(func() {
		for _, e := range l.events {
			if e.Stream == stream && e.Seq > seq {
				events = append(events, e)
			}
		}
	})
	return events, err
}

func (l *eventLog) Delete(_ context.Context, session string) error {
	return l.with(func() { l.deleted = append(l.deleted, session) })
}

// patient is a server with a tool that closes its response, says what became of that
// in progress that nobody asked for, and answers when it is let.
func patient(t *testing.T, opts ...server.Option) (srv *server.Server, release chan struct{}) {
	srv, release = newServer(t, opts...), make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "patient"}, func(ctx context.Context, call *server.Call, _ struct{}) (string, error) {
		err := call.CloseStream(300 * time.Millisecond)
		if err != nil {
			require.ErrorIs(t, err, errors.ErrUnsupported)
			return "open", nil
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "closed", nil
	})
	return srv, release
}

func sessionWith(t *testing.T, url, version string) (header string) {
	t.Helper()
	res, _ := exchange(t, "POST", url, legacy(1, "initialize",
		fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}`, version)))
	header = "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, notice("notifications/initialized", ""), header)
	return header
}

const callPatient = `"name":"patient"`

// With the default event store a handler can close its stream, and the answer is stored.
func TestCloseStream(t *testing.T) {
	srv, release := patient(t)
	url := listen(t, srv)
	sid := sessionWith(t, url, "2025-11-25")
	res, body := exchange(t, "POST", url, legacy(2, "tools/call", callPatient), sid)
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	require.Regexp(t, `(?s)^id: \S+\ndata: \n\nid: \S+\nretry: 300\ndata: \n\n$`, body)
	s := openStream(t, "GET", url, "", sid, "Last-Event-ID: "+lastID(body))
	require.Equal(t, 200, s.StatusCode)
	close(release)
	require.Contains(t, s.next(), `"closed"`)
	s.ends()

	// Who does not know how to come back gets the answer on the response.
	_, body = exchange(t, "POST", url, legacy(2, "tools/call", callPatient), sessionWith(t, url, "2025-06-18"))
	require.Contains(t, body, `"open"`)
	_, body = exchange(t, "POST", url, modern(2, "tools/call", callPatient), "Mcp-Protocol-Version: 2026-07-28",
		"Mcp-Method: tools/call", "Mcp-Name: patient")
	require.Contains(t, body, `"open"`)
	p := dial(t, srv)
	p.initialize("2025-11-25")
	require.Contains(t, p.ask(legacy(2, "tools/call", callPatient)), `"open"`)
	conserved(t, srv)
}

// lastID returns the id of the last event.
func lastID(body string) (id string) {
	for line := range strings.Lines(body) {
		if after, found := strings.CutPrefix(line, "id: "); found {
			id = strings.TrimSpace(after)
		}
	}
	return id
}

func TestWithoutEventStore(t *testing.T) {
	for _, opt := range []server.Option{server.WithoutEventStore(), server.WithEventStore(nil)} {
		srv, _ := patient(t, opt)
		url := listen(t, srv)
		sid := sessionWith(t, url, "2025-11-25")
		_, body := exchange(t, "POST", url, legacy(2, "tools/call", callPatient), sid)
		require.Contains(t, body, `"open"`)
		s := openStream(t, "GET", url, "", sid)
		srv.RemoveTools("patient")
		require.Equal(t, notice(toolsChanged, ""), s.next())
		require.NotContains(t, s.raw.String(), "id:")
		conserved(t, srv)
	}
}

func TestWithEventStore(t *testing.T) {
	log := &eventLog{}
	srv, release := patient(t, server.WithEventStore(log))
	url := listen(t, srv)
	sid := sessionWith(t, url, "2025-11-25")
	_, body := exchange(t, "POST", url, legacy(2, "tools/call", callPatient), sid)
	close(release)
	require.Eventually(t, func() bool {
		counters := srv.Core().Snapshot().Counters
		_, _, stored, _ := counters.Totals()
		return stored == 1
	}, wait, tick)
	s := openStream(t, "GET", url, "", sid, "Last-Event-ID: "+lastID(body))
	require.Contains(t, s.next(), `"closed"`)
	s.ends()
	exchange(t, "DELETE", url, "", sid)
	require.Eventually(t, func() bool { log.mu.Lock(); defer log.mu.Unlock(); return len(log.deleted) == 1 }, wait, tick)
	require.Len(t, log.events, 3)
	require.True(t, log.events[2].Last)
	require.NotContains(t, sid, log.deleted[0], "the store does not learn the session's id")

	// A store that is out of order costs nobody an answer.
	log.broken = true
	_, body = exchange(t, "POST", url, legacy(2, "tools/call", callPatient), sessionWith(t, url, "2025-11-25"))
	require.Contains(t, body, `"open"`)
	require.EqualValues(t, 1, srv.Core().Snapshot().Counters.EventFailures["append"])
	log.broken = false
	conserved(t, srv)
}

// The limits of the default store are the server's, also if they are set later.
func TestEventLimits(t *testing.T) {
	srv, release := patient(t, server.WithLimits(server.Limits{MaxEvents: 100}))
	require.NoError(t, srv.SetLimits(server.Limits{MaxEvents: 2}))
	url := listen(t, srv)
	sid := sessionWith(t, url, "2025-11-25")
	_, body := exchange(t, "POST", url, legacy(2, "tools/call", callPatient), sid)
	close(release)
	require.Eventually(t, func() bool { return srv.Core().Snapshot().Counters.LimitsReached["max_events"] == 1 }, wait, tick)
	s := openStream(t, "GET", url, "", sid, "Last-Event-ID: "+lastID(body))
	require.Contains(t, s.next(), `"closed"`)
	s.ends()
	res, _ := exchange(t, "GET", url, "", sid, "Last-Event-ID: "+body[4:4+len(lastID(body))-1]+"0")
	require.Equal(t, 400, res.StatusCode)
	require.EqualValues(t, 1, srv.Core().Snapshot().Counters.ExchangesRefused[mcp.RefuseEventUnknown])
	conserved(t, srv)
}
