package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// A reader is a client that reads the stream of a call in a legacy session. When its connection ends, it goes on
// after the last event that it has, at whichever server comes next.
type reader struct {
	*load
	client  *http.Client
	session http.Header
	id      string // of the call

	last  string                // id of the last event
	hang  func(events int) bool // whether to hang up after so many events
	event func(message) bool    // takes an event that is no answer, and reports whether it was expected
}

// resumes is the name of the request with which a reader goes on.
const resumes = "GET with Last-Event-ID"

// read reads the stream from its first response until the answer.
func (r *reader) read(resp *http.Response, err error, want string) bool {
	for end := time.Now().Add(2 * patience); ; {
		if resp != nil {
			switch resp.StatusCode {
			case http.StatusOK:
				if m := r.readOn(resp.Body); m != nil {
					return r.conclude(m, want)
				}
			case http.StatusConflict, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
				resp.Body.Close() // the ledger says whether that may be
				time.Sleep(50 * time.Millisecond)
			default:
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode == http.StatusNotFound {
					r.fail("%s: its session is lost: %s", r.id, body)
				}
				r.lose(r.id, "%d %s after event %q", resp.StatusCode, body, r.last)
				return false
			}
		}
		if r.last == "" || r.ctx.Err() != nil || time.Now().After(end) {
			r.lose(r.id, "no more events after %q: %v", r.last, err)
			return false
		}
		headers := r.session.Clone()
		headers.Set("Last-Event-ID", r.last)
		resp, _, _ = r.open(r.ctx, r.client, plainRequest{
			name: resumes, method: http.MethodGet, headers: headers, trace: newTrace(), call: r.id,
			want: []int{http.StatusOK, http.StatusConflict}, // the broken connection may still count as a reader
		})
	}
}

// readOn reads one connection. It returns the answer, or nil if the connection ends before it.
func (r *reader) readOn(body io.ReadCloser) *message {
	defer body.Close()
	in, id, events := bufio.NewScanner(body), "", 0
	for in.Scan() {
		switch field, value, _ := strings.Cut(in.Text(), ": "); {
		case field == "id":
			id = value
		case strings.HasPrefix(field, "data"):
			if id != "" {
				r.last = id
			}
			if value == "" || value == "data:" {
				continue
			}
			var m message
			if err := json.Unmarshal([]byte(value), &m); err != nil {
				r.fail("%s: %q: %v", r.id, value, err)
				continue
			}
			m.raw = value
			if m.Method == "" {
				return &m
			}
			if !r.event(m) {
				r.fail("%s: not expected: %s", r.id, value)
			}
			if events++; r.hang(events) {
				return nil
			}
		}
	}
	return nil
}

// conclude notes the answer.
func (r *reader) conclude(m *message, want string) bool {
	var data struct{ Reason string }
	switch {
	case strings.Contains(m.text(), want):
		r.answered(r.id)
		return true
	case m.Error != nil && json.Unmarshal(m.Error.Data, &data) == nil && data.Reason != "":
		r.lose(r.id, "%s", data.Reason)
	default:
		r.lose(r.id, "%s", m)
	}
	return false
}

// resumedStream calls the tool that reports progress. It hangs up after every few reports, and expects each one
// once.
func (l *load) resumedStream(session http.Header) func(*http.Client) bool {
	const steps = 12
	return func(client *http.Client) bool {
		at := 0
		r := &reader{load: l, client: client, session: session, hang: func(events int) bool { return events == 4 }}
		r.event = func(m message) bool {
			at++
			return m.Method == "notifications/progress" && m.Params.Progress == float64(at)
		}
		id, resp, err := l.send(client, "resumed stream", session,
			call(nil, "progress", object{"steps": steps, "ms": 30}).with("progressToken", l.ids.Add(1)))
		r.id = id
		ok := r.read(resp, err, fmt.Sprintf("%d steps done", steps))
		if ok && at != steps {
			l.fail("%s: %d events before its answer, want %d", id, at, steps)
		}
		return ok
	}
}

// question calls a tool that asks, and sends the answer to whichever server comes next. It hangs up after the
// question every other time.
func (l *load) question(session http.Header) func(*http.Client) bool {
	round := 0
	return func(client *http.Client) bool {
		round++
		asked, name := 0, fmt.Sprint("name ", l.ids.Add(1))
		r := &reader{load: l, client: client, session: session, hang: func(int) bool { return round%2 == 0 }}
		r.event = func(m message) bool {
			if m.Method != elicits {
				return false
			}
			asked++
			go l.reply(session, m, name)
			return asked == 1
		}
		id, resp, err := l.send(client, "question", session, call(nil, "test_elicitation", object{"message": name}))
		r.id = id
		return r.read(resp, err, name)
	}
}

// reply answers a question. A server that was killed may have taken the answer with it, so that it is sent again
// if there is no response: the question accepts one.
func (l *load) reply(session http.Header, question message, name string) {
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	frame := encode(object{"jsonrpc": "2.0", "id": question.ID, "result": object{
		"action": "accept", "content": object{"username": name, "email": "test@example.com"},
	}})
	for ctx.Err() == nil {
		if _, taken := l.ask(ctx, http.DefaultClient, plainRequest{
			name: "answer to " + elicits, method: http.MethodPost, headers: session, body: frame, trace: newTrace(),
			want: []int{http.StatusAccepted},
		}); taken {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	if l.ctx.Err() == nil {
		l.fail("the answer to %s was not taken", question.ID)
	}
}
