package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/server"
)

// A modelSession is a legacy session of a client.
type modelSession struct {
	name, header string
	lastID       int // of its requests
	// deletions are the replicas where its client has deleted it.
	deletions []*modelReplica
	told      bool // all replicas that are well know of it
	known     map[*modelReplica]bool
}

// A modelCall is one call of a tool whose handler does what it is told.
type modelCall struct {
	world   *modelWorld
	session *modelSession
	id      int
	key     string
	home    *modelReplica // where it runs
	orders  chan string
	conn    *modelConn // nil is none
	// sound says that the store has all events, and that its replica can be asked. That of a deleted session, which a
	// replica serves because it has not heard, may have none.
	sound     bool
	cancelled bool
	brokenOff bool // its client has not kept the first connection
	client    modelReader

	mu      sync.Mutex // guards the rest, which is the handler's side
	runs    int
	said    int
	asking  bool
	asked   int
	heard   []string
	unasked error // of a question
	ended   bool
	cause   error
	sent    map[string]bool // answers of its client to its questions
}

// A modelReader is what a client has read of a stream.
type modelReader struct {
	mu        sync.Mutex
	lastEvent string
	read      int      // progress reports
	questions []string // ids
	answer    string
	withoutID bool // it has got events that it cannot name
	repeats   bool // the store may have these, too
}

// run is the handler.
func (c *modelCall) run(ctx context.Context, call *server.Call) (string, error) {
	c.mu.Lock()
	c.runs++
	c.mu.Unlock()
	for {
		select {
		case order := <-c.orders:
			switch order {
			case "say":
				c.mu.Lock()
				c.said++
				said := c.said
				c.mu.Unlock()
				_ = call.Progress(float64(said), 0, "")
			case "ask":
				raw, err := call.CallClient(ctx, "roots/list", nil)
				c.mu.Lock()
				c.asking = false
				if err != nil && ctx.Err() == nil {
					c.unasked = err
				}
				if err == nil {
					c.heard = append(c.heard, string(raw))
				}
				c.mu.Unlock()
			case "finish":
				c.end(nil)
				return "done " + c.key, nil
			}
		case <-ctx.Done():
			c.end(context.Cause(ctx))
			return "", context.Cause(ctx)
		}
	}
}

func (c *modelCall) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.asking, c.cause = true, false, cause
}

// idle reports whether the handler waits for an order.
func (c *modelCall) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs > 0 && !c.ended && !c.asking && len(c.orders) == 0 && !c.home.killed
}

func (c *modelCall) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs > 0 && !c.ended && !c.home.killed
}

// order has the handler do something.
func (c *modelCall) order(what string) { c.orders <- what }

// A modelConn is an exchange of a client that reads a stream. It is the http.ResponseWriter.
type modelConn struct {
	call   *modelCall
	at     *modelReplica
	cancel context.CancelFunc
	header http.Header

	mu     sync.Mutex // guards the rest
	status int
	text   string // that has not been read
	gone   bool   // the client reads no more
	ended  bool   // the server has ended it
}

// exchange begins an exchange of a call. With lastEvent it resumes.
func (c *modelCall) exchange(at *modelReplica, body, lastEvent string) *modelConn {
	ctx, cancel := context.WithCancel(context.Background())
	x := &modelConn{call: c, at: at, cancel: cancel, header: http.Header{}}
	r := legacyRequest(body, c.session.header).WithContext(ctx)
	if body == "" {
		r.Method = http.MethodGet
		r.Header.Set("Last-Event-ID", lastEvent)
	}
	go func() {
		at.srv.Handler().ServeHTTP(x, r)
		x.mu.Lock()
		x.ended = true
		if !x.gone && x.status == http.StatusOK && strings.HasPrefix(x.header.Get("Content-Type"), "application/json") {
			x.call.client.take(x.call, "", x.text)
		}
		x.mu.Unlock()
		cancel()
	}()
	return x
}

// leave breaks the connection.
func (x *modelConn) leave() {
	x.mu.Lock()
	x.gone = true
	x.mu.Unlock()
	x.cancel()
}

// hangUp breaks the connection of a call.
func (c *modelCall) hangUp() {
	c.conn.leave()
	c.conn, c.brokenOff = nil, true
}

// over reports whether the server has ended the exchange, and its status.
func (x *modelConn) over() (status int, ended bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status, x.ended
}

func (x *modelConn) Header() http.Header { return x.header }
func (x *modelConn) Flush()              {}

func (x *modelConn) WriteHeader(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status = status
}

func (x *modelConn) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone {
		return len(p), nil
	}
	if x.status == 0 {
		x.status = http.StatusOK
	}
	x.text += string(p)
	if !strings.HasPrefix(x.header.Get("Content-Type"), "text/event-stream") {
		return len(p), nil
	}
	for {
		event, rest, whole := strings.Cut(x.text, "\n\n")
		if !whole {
			return len(p), nil
		}
		x.text = rest
		id, data := "", ""
		for line := range strings.Lines(event) {
			if after, ok := strings.CutPrefix(line, "id: "); ok {
				id = strings.TrimSpace(after)
			}
			if after, ok := strings.CutPrefix(line, "data: "); ok {
				data = strings.TrimSpace(after)
			}
		}
		x.call.client.take(x.call, id, data)
	}
}

// take reads one event, and checks that it is the next one.
func (m *modelReader) take(c *modelCall, id, data string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id != "" {
		m.lastEvent = id
	} else if data != "" {
		m.withoutID = true
	}
	if data == "" {
		return
	}
	var frame struct {
		ID     any
		Method string
		Params struct{ Progress int }
		Error  *struct{ Data struct{ Reason string } }
	}
	if err := json.Unmarshal([]byte(data), &frame, json.MatchCaseInsensitiveNames(true)); err != nil {
		c.world.wrong("%s reads %s: %v", c.key, data, err)
		return
	}
	c.world.note("  %s reads %s", c.key, data)
	repeated := m.repeats && m.withoutID
	switch {
	case m.answer != "":
		c.world.wrong("%s reads %s after its answer", c.key, data)
	case frame.Method == "notifications/progress":
		if frame.Params.Progress != m.read+1 && !(repeated && frame.Params.Progress <= m.read) {
			c.world.wrong("%s reads progress %d after %d", c.key, frame.Params.Progress, m.read)
		}
		m.read = max(m.read, frame.Params.Progress)
	case frame.Method == "roots/list":
		if slices.Contains(m.questions, frame.ID.(string)) && !repeated {
			c.world.wrong("%s reads question %s again", c.key, frame.ID)
		}
		m.questions = append(m.questions, frame.ID.(string))
	case frame.Method == "notifications/cancelled": // the handler needs no answer any more
	case frame.Method != "":
		c.world.wrong("%s reads %s", c.key, data)
	case frame.ID != float64(c.id):
		c.world.wrong("%s reads the answer of another call: %s", c.key, data)
	case frame.Error == nil:
		m.answer = "result"
		if !strings.Contains(data, `"done `+c.key+`"`) {
			c.world.wrong("%s reads %s", c.key, data)
		}
	default:
		m.answer = "error"
		if frame.Error.Data.Reason != "" {
			m.answer = frame.Error.Data.Reason
		}
	}
}

// mayRepeat notes that the store may have events which the client has got without an id.
func (m *modelReader) mayRepeat() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.repeats = true
}

// answered returns the answer that the client has, or "".
func (m *modelReader) answered() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answer
}

// state returns what a client has read.
func (m *modelReader) state() (lastEvent string, read int, answer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastEvent, m.read, m.answer
}

// anyQuestion returns one of the questions, or "".
func (m *modelReader) anyQuestion(w *modelWorld) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.questions) == 0 {
		return ""
	}
	return m.questions[len(m.questions)-1-w.random.IntN(min(2, len(m.questions)))]
}

// rootsAnswer is an answer to a question, and what the handler hears of it.
func rootsAnswer(id, uri string) (frame, heard string) {
	heard = fmt.Sprintf(`{"roots":[{"uri":%q}]}`, uri)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":%s}`, id, heard), heard
}

// message posts a message that has no stream, and returns the status and how long it took.
func (w *modelWorld) message(r *modelReplica, s *modelSession, method, body string) (status int, text string, took time.Duration) {
	began := time.Now()
	answer := send(r.srv, method, body, s.header)
	s.known[r] = true
	return answer.Code, answer.Body.String(), time.Since(began)
}
