package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A modelSession is a legacy session of a client.
type modelSession struct {
	name, header string
	lastID       int // of its requests
	// deletions are the replicas where its client has deleted it.
	deletions []*modelReplica
	told      bool // all replicas that are well know of it
	forgotten bool // the store has lost that it was deleted
	known     map[*modelReplica]bool
	level     *modelSetting[mcp.LoggingLevel]
	own       *modelOwn // nil is none
	listener  *modelListener
}

// A modelCall is one call of a tool whose handler does what it is told.
type modelCall struct {
	*modelHandler
	world   *modelWorld
	session *modelSession
	id      int
	conn    *modelConn // nil is none
	// sound says that the store has all events, and that its replica can be asked. That of a deleted session, which a
	// replica serves because it has not heard, may have none.
	sound     bool
	cancelled bool
	brokenOff bool // its client has not kept the first connection
	client    modelReader
	sent      map[string]bool // answers of its client to its questions
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

// exchange begins an exchange of a call. With lastEvent it resumes.
func (c *modelCall) exchange(at *modelReplica, body, lastEvent string) *modelConn {
	r := legacyRequest(body, c.session.header)
	if body == "" {
		r.Method = http.MethodGet
		r.Header.Set("Last-Event-ID", lastEvent)
	}
	return at.exchange(r, func(id, data string) { c.client.take(c, id, data) })
}

// hangUp breaks the connection of a call.
func (c *modelCall) hangUp() {
	c.conn.leave()
	c.conn, c.brokenOff = nil, true
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
