package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A stream is the event stream of one exchange.
type stream struct {
	status int
	lastID string // of the last event
	events chan answer
	ids    chan string
	cancel context.CancelFunc
}

// openStream sends a request and reads the events of its answer one by one.
func (c *caller) openStream(t *testing.T, method string, header http.Header, body string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := c.request(ctx, method, header, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	st := &stream{status: resp.StatusCode, events: make(chan answer, 100), ids: make(chan string, 100), cancel: cancel}
	go st.read(resp.Body)
	t.Cleanup(func() {
		cancel()
		for range st.events {
		}
	})
	return st
}

func (st *stream) read(body io.ReadCloser) {
	defer body.Close()
	defer close(st.events)
	id := ""
	in := bufio.NewReader(body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(v)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.TrimSpace(data) != "" {
			var a answer
			_ = json.Unmarshal([]byte(data), &a) // nothing else is sent
			st.ids <- id
			st.events <- a
		}
	}
}

// next returns the next message.
func (st *stream) next(t *testing.T) answer {
	t.Helper()
	select {
	case a, ok := <-st.events:
		if !ok {
			t.Fatalf("the stream has ended (status %d)", st.status)
		}
		st.lastID = <-st.ids
		return a
	case <-time.After(patience):
		t.Fatal("no event")
	}
	return answer{}
}

// open reports whether the stream has neither ended nor a message.
func (st *stream) open() bool {
	select {
	case <-st.events:
		return false
	default:
		return true
	}
}

// silent checks that the stream brings no message of another session, and closes it.
func (st *stream) silent(t *testing.T) {
	t.Helper()
	select {
	case a, ok := <-st.events:
		if ok {
			t.Errorf("the stream brought %+v", a)
		}
	case <-time.After(100 * time.Millisecond):
	}
	st.cancel()
}
