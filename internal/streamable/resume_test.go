package streamable_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// newResumable returns an endpoint with an event store, and one tool that does what the
// test says.
func newResumable(t *testing.T, proto protocol, cfg session.Config, tool session.Handle) *endpoint {
	t.Helper()
	if cfg.Events == nil {
		cfg.Events = resume.NewMemory()
	}
	f := newFakeOf(t, cfg)
	f.Routes["tools/call"].Handle = tool
	return newEndpointOf(t, f, proto, streamable.Config{})
}

// resumable opens a session of a revision and returns its header.
func (e *endpoint) resumable(version mcp.Version) header {
	e.t.Helper()
	sid := e.session()
	e.sessionOf(sid).Initialize(&session.Peer{Version: version})
	return sid
}

// An sseEvent is one event as the client gets it.
type sseEvent struct {
	id, name, data string
	retry          int
}

// A connection is one exchange that is an event stream.
type connection struct {
	drop   context.CancelFunc
	status int
	body   io.ReadCloser
	in     *bufio.Reader
}

// connect sends a request whose response is an event stream.
func (e *endpoint) connect(method, body string, headers ...header) *connection {
	e.t.Helper()
	ctx, drop := context.WithCancel(e.t.Context())
	res, err := e.srv.Client().Do(e.request(ctx, method, body, headers...))
	require.NoError(e.t, err)
	e.t.Cleanup(func() { drop(); res.Body.Close() })
	return &connection{drop: drop, status: res.StatusCode, body: res.Body, in: bufio.NewReader(res.Body)}
}

// next reads one event; comments are no events.
func (c *connection) next() (e sseEvent, err error) {
	seen := false
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return e, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "retry":
			e.retry, _ = strconv.Atoi(value)
		case "data":
			e.data, seen = value, true
		case "":
			if seen {
				return e, nil
			}
		}
	}
}

// A follower is a client that comes back until a stream has ended.
type follower struct {
	e    *endpoint
	sid  header
	c    *connection
	last string
	data []string // of all events
}

// read takes at most n events with data; false at the end of the exchange.
func (f *follower) read(n int) bool {
	for n > 0 {
		ev, err := f.c.next()
		if err != nil {
			return false
		}
		require.NotEmpty(f.e.t, ev.id, "%+v", ev)
		f.last = ev.id
		if ev.data != "" {
			f.data = append(f.data, ev.data)
			n--
		}
	}
	return true
}

// back drops the connection and comes again. The server may not have noticed yet.
func (f *follower) back() {
	f.e.t.Helper()
	f.c.drop()
	for {
		f.c = f.e.connect("GET", "", f.sid, "Last-Event-ID: "+f.last)
		if f.c.status == http.StatusOK {
			return
		}
		require.Equal(f.e.t, http.StatusConflict, f.c.status)
		time.Sleep(time.Millisecond)
	}
}

// A client that disconnects and resumes a stream of notifications gets each of them once and
// in order, and the answer.
func TestResumedPOSTStreamLosesNothing(t *testing.T) {
	const notes = 400
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newResumable(t, proto, session.Config{}, func(_ context.Context, r *session.Request) (mcp.Result, error) {
			for n := range notes {
				if err := r.Notify("notifications/progress", fmt.Appendf(nil, `{"n":%d}`, n), ""); err != nil {
					return nil, err
				}
				if n%20 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			return &text{Text: "done"}, nil
		})
		for _, version := range []mcp.Version{mcp.Version20251125, mcp.Version20250618, mcp.Version20250326} {
			f := &follower{e: e, sid: e.resumable(version)}
			f.c = e.connect("POST", legacy(1, "tools/call", "flow"), f.sid)
			drops := 0
			for len(f.data) <= notes {
				more := f.read(1 + rand.IntN(60))
				if len(f.data) > notes {
					break
				}
				require.True(t, more, "%s: the stream has ended after %d events", version, len(f.data))
				f.back()
				drops++
			}
			for n := range notes {
				require.Equal(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":%d}}`, n), f.data[n])
			}
			require.Equal(t, answer(1, "done"), f.data[notes])
			require.Len(t, f.data, notes+1)
			require.Greater(t, drops, 5)
			e.do(e.request(t.Context(), "DELETE", "", f.sid))
		}
		counters := e.Conserved()
		_, sent, stored, dropped := counters.Totals()
		require.EqualValues(t, 6, sent+stored, "with the handshakes")
		require.Zero(t, dropped)
		require.Empty(t, counters.NotificationsDropped)
	})
}

// The same holds for the session's own stream.
func TestResumedGETStreamLosesNothing(t *testing.T) {
	const notes = 400
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newResumable(t, proto, session.Config{}, nil)
		f := &follower{e: e, sid: e.resumable(mcp.Version20251125)}
		s := e.sessionOf(f.sid)
		f.c = e.connect("GET", "", f.sid)
		require.Equal(t, 200, f.c.status)
		said := make(chan error, 1)
		go func() {
			for n := range notes {
				if err := s.Notify(context.Background(), "notifications/x", fmt.Appendf(nil, `{"n":%d}`, n), ""); err != nil {
					said <- err
					return
				}
				if n%20 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			said <- nil
		}()
		for len(f.data) < notes {
			require.True(t, f.read(min(1+rand.IntN(60), notes-len(f.data))))
			f.back()
		}
		require.NoError(t, <-said)
		for n := range notes {
			require.Equal(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/x","params":{"n":%d}}`, n), f.data[n])
		}
		second, _ := e.do(e.request(t.Context(), "GET", "", f.sid))
		require.Equal(t, 409, second.StatusCode)
		f.c.drop()
		require.NoError(t, s.Notify(t.Context(), "notifications/x", []byte(`{"n":-1}`), ""))
		f.back()
		require.True(t, f.read(1))
		e.do(e.request(t.Context(), "DELETE", "", f.sid))
		require.False(t, f.read(1), "the end of the session ends the stream")
		require.Empty(t, e.Conserved().NotificationsDropped)
	})
}

// The bytes of events with ids.
func TestEventIDsOnTheWire(t *testing.T) {
	note := func(n int) string {
		return fmt.Sprintf(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"n":%d}}`+"\n\n", n)
	}
	tool := func(_ context.Context, r *session.Request) (mcp.Result, error) {
		if r.Name == "talk" {
			if err := r.Notify("notifications/progress", []byte(`{"n":0}`), ""); err != nil {
				return nil, err
			}
		}
		return &text{Text: r.Name}, nil
	}
	e := newResumable(t, http1, session.Config{}, tool)
	for _, tt := range []struct {
		version mcp.Version
		want    string // with ID for the part of the session
	}{
		{mcp.Version20251125, "id: ID-1-1\ndata: \n\nevent: message\nid: ID-1-2\n" + note(0) + "event: message\nid: ID-1-3\ndata: " + answer(1, "talk") + "\n\n"},
		{mcp.Version20250618, "event: message\nid: ID-1-1\n" + note(0) + "event: message\nid: ID-1-2\ndata: " + answer(1, "talk") + "\n\n"},
		{mcp.Version20250326, "event: message\nid: ID-1-1\n" + note(0) + "event: message\nid: ID-1-2\ndata: " + answer(1, "talk") + "\n\n"},
		{mcp.Version20241105, "event: message\n" + note(0) + "event: message\ndata: " + answer(1, "talk") + "\n\n"},
	} {
		sid := e.resumable(tt.version)
		res, body := e.post(legacy(1, "tools/call", "talk"), sid)
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		_, id, found := strings.Cut(body, "id: ")
		if id, _, _ = strings.Cut(id, "-"); found {
			require.Regexp(t, `^[0-9A-V]{10}$`, id)
			body = strings.ReplaceAll(body, id+"-", "ID-")
		}
		require.Equal(t, tt.want, body)

		res, body = e.post(legacy(2, "tools/call", "plain"), sid)
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		require.Equal(t, answer(2, "plain"), body, "lazy commit stays")
		// A client that takes nothing else gets an event with an id.
		_, body = e.post(legacy(3, "tools/call", "plain"), sid, "Accept: text/event-stream")
		require.Equal(t, tt.version.AtLeast(mcp.Version20250326), strings.Contains(body, "\nid: "), body)
	}
	_, body := e.post(modern(1, "talk"), modernHeaders("tools/call", "talk")...)
	require.NotContains(t, body, "id: ", "modern streams have no ids")
	e.Conserved()
}

// A keep-alive makes the response an event stream and gives the client an event id.
func TestKeepAliveHasAnID(t *testing.T) {
	release := make(chan struct{})
	e := newResumable(t, http1, session.Config{Limits: limits.Limits{KeepAlive: 20 * time.Millisecond}},
		func(context.Context, *session.Request) (mcp.Result, error) {
			<-release
			return &text{Text: "done"}, nil
		})
	f := &follower{e: e, sid: e.resumable(mcp.Version20251125)}
	f.c = e.connect("POST", legacy(1, "tools/call", "x"), f.sid)
	line, err := f.c.in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, ":\n", line)
	ev, err := f.c.next()
	require.NoError(t, err)
	require.NotEmpty(t, ev.id)
	require.Empty(t, ev.data)
	f.last = ev.id
	f.back()
	close(release)
	require.True(t, f.read(1))
	require.Equal(t, []string{answer(1, "done")}, f.data)
	e.Conserved()
}

// SEP-1699: the server closes the response, and the client polls.
func TestClosedStreamIsPolled(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		polled := make(chan struct{})
		e := newResumable(t, proto, session.Config{}, func(_ context.Context, r *session.Request) (mcp.Result, error) {
			if err := r.CloseStream(250 * time.Millisecond); err != nil {
				return &text{Text: "unsupported"}, nil
			}
			<-polled
			return &text{Text: "done"}, nil
		})
		sid := e.resumable(mcp.Version20251125)
		res, body := e.post(legacy(1, "tools/call", "x"), sid) // the response ends in order
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		require.Regexp(t, `^id: \w+-1-1\ndata: \n\nid: \w+-1-2\nretry: 250\ndata: \n\n$`, body)
		last := strings.Split(strings.TrimPrefix(body[strings.LastIndex(body, "id: "):], "id: "), "\n")[0]
		f := &follower{e: e, sid: sid, c: e.connect("GET", "", sid, "Last-Event-ID: "+last)}
		require.Equal(t, 200, f.c.status)
		close(polled)
		require.True(t, f.read(1))
		require.Equal(t, []string{answer(1, "done")}, f.data)
		require.False(t, f.read(1), "it ends after the answer")

		for _, other := range []header{e.resumable(mcp.Version20250618), e.resumable(mcp.Version20241105)} {
			res, body = e.post(legacy(1, "tools/call", "x"), other)
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))
			require.Equal(t, answer(1, "unsupported"), body)
		}
		_, body = e.post(legacy(1, "tools/call", "x"), sid, "Accept: application/json")
		require.Equal(t, answer(1, "unsupported"), body)
		_, body = e.post(modern(1, "x"), modernHeaders("tools/call", "x")...)
		require.Equal(t, answer(1, "unsupported"), body)
		e.Conserved()
	})
}

// A flakyStore fails when it is told.
type flakyStore struct {
	*resume.Memory
	mu   sync.Mutex
	down bool
}

func (s *flakyStore) fail(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *flakyStore) After(ctx context.Context, name, stream string, seq uint64) ([]store.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.New("secret")
	}
	return s.Memory.After(ctx, name, stream, seq)
}

// A stream that cannot be resumed is refused, and no client gets the events of another.
func TestResumeIsRefused(t *testing.T) {
	store := &flakyStore{Memory: resume.NewMemory()}
	release := make(chan struct{})
	e := newResumable(t, http1, session.Config{Events: store}, func(_ context.Context, r *session.Request) (mcp.Result, error) {
		_ = r.Notify("notifications/progress", []byte(`{"n":0}`), "")
		if r.Name == "wait" {
			<-release
		}
		return &text{Text: r.Name}, nil
	})
	sid, other := e.resumable(mcp.Version20251125), e.resumable(mcp.Version20251125)
	_, body := e.post(legacy(1, "tools/call", "mine"), sid)
	events := strings.Split(body, "\n")
	first := strings.TrimPrefix(events[0], "id: ")
	final := first[:len(first)-1] + "3"
	live := e.connect("POST", legacy(2, "tools/call", "wait"), sid)
	ev, err := live.next()
	require.NoError(t, err)

	const unknown = `{"jsonrpc":"2.0","error":{"code":-32600,"message":"there is no stream to be resumed from this event","data":{"reason":"event_unknown"}}}`
	for _, tt := range []struct {
		name    string
		headers []header
		status  int
		want    string
	}{
		{"mine", []header{sid, "Last-Event-ID: " + first}, 200, ""},
		{"foreign session", []header{other, "Last-Event-ID: " + first}, 400, unknown},
		{"malformed", []header{sid, "Last-Event-ID: x"}, 400, unknown},
		{"never sent", []header{sid, "Last-Event-ID: " + first + "9"}, 400, unknown},
		{"nothing follows", []header{sid, "Last-Event-ID: " + final}, 400, unknown},
		{"unknown session", []header{sid + "x", "Last-Event-ID: " + first}, 404, ""},
		{"live", []header{sid, "Last-Event-ID: " + ev.id}, 409,
			`{"jsonrpc":"2.0","error":{"code":-32600,"message":"another connection reads this stream","data":{"reason":"conflict"}}}`},
		{"no event stream", []header{sid, "Last-Event-ID: " + first, "Accept: application/json"}, 406, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, body := e.do(e.request(t.Context(), "GET", "", tt.headers...))
			require.Equal(t, tt.status, res.StatusCode, body)
			if tt.status != 200 {
				require.Equal(t, "application/json", res.Header.Get("Content-Type"))
				require.NotContains(t, body, "mine")
			}
			if tt.want != "" {
				require.JSONEq(t, tt.want, body)
			}
		})
	}
	store.fail(true)
	res, body := e.do(e.request(t.Context(), "GET", "", sid, "Last-Event-ID: "+first))
	require.Equal(t, 429, res.StatusCode)
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.Contains(t, body, `"reason":"event_store"`)
	require.NotContains(t, body, "secret")
	store.fail(false)
	res, _ = e.do(e.request(t.Context(), "GET", "", sid, "Last-Event-ID: "+first))
	require.Equal(t, 200, res.StatusCode)
	close(release)
	rest, err := io.ReadAll(live.in)
	require.NoError(t, err)
	require.Contains(t, string(rest), answer(2, "wait"))

	counters := e.Conserved()
	require.EqualValues(t, 4, counters.ExchangesRefused[mcp.RefuseEventUnknown])
	require.EqualValues(t, 1, counters.ExchangesRefused[mcp.RefuseEventStore])
	require.EqualValues(t, 1, counters.ExchangesRefused[mcp.RefuseConflict])
	require.EqualValues(t, 2, counters.StreamsResumed)
	require.EqualValues(t, 1, counters.EventFailures["replay"])
}

// Without an event store there are no event ids, and a client cannot resume.
func TestWithoutEventStoreThereAreNoEventIDs(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid := e.session()
	_, body := e.post(legacy(1, "tools/call", "progress:x"), sid)
	require.NotContains(t, body, "id: ")
	res, _ := e.do(e.request(t.Context(), "GET", "", sid, "Last-Event-ID: x"))
	require.Equal(t, 400, res.StatusCode)
	e.Conserved()
}
