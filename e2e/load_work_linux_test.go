package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// exchange sends a request of a tool, and reads the whole response.
func (l *load) exchange(client *http.Client, kind string, session http.Header, r request) (id string, a answer, err error) {
	id, resp, err := l.send(client, kind, session, r)
	if err != nil {
		return id, a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	a = answer{status: resp.StatusCode, header: resp.Header, body: string(body)}
	return id, a, err
}

// settle notes what has become of a call: its answer must contain a text.
func (l *load) settle(id string, a answer, err error, want string) bool {
	switch {
	case err == nil && a.status == http.StatusOK && strings.Contains(a.body, want) && strings.Contains(a.body, `"result"`):
		l.answered(id)
		return true
	case a.status == http.StatusNotFound:
		l.fail("%s: its session is lost: %s", id, a.body)
	}
	l.lose(id, "%d %.300s %v", a.status, a.body, err)
	return false
}

// echo calls a tool that answers with the text.
func (l *load) echo(client *http.Client, kind string, session http.Header) bool {
	text := fmt.Sprint("text ", l.ids.Add(1))
	id, a, err := l.exchange(client, kind, session, call(nil, "echo", object{"text": text}))
	return l.settle(id, a, err, text)
}

func (l *load) modernCall(client *http.Client) bool { return l.echo(client, "plain call, modern", nil) }

// legacyCall calls in one session, which lives as long as the load.
func (l *load) legacyCall(session http.Header) func(*http.Client) bool {
	return func(client *http.Client) bool { return l.echo(client, "plain call, legacy", session) }
}

// wholeSession opens a session, calls in it, and deletes it.
func (l *load) wholeSession(client *http.Client) bool {
	session, ok := l.initialize(client)
	if !ok {
		return false
	}
	return l.echo(client, "session", session) && l.deleteSession(client, session)
}

// initialize opens a session whose client answers questions.
func (l *load) initialize(client *http.Client) (session http.Header, ok bool) {
	r := initializeRequest()
	r.params["capabilities"] = object{"elicitation": object{}}
	a, ok := l.ask(l.ctx, client, plain(plainHeaders(), r))
	if !ok {
		return nil, false
	}
	session = (&legacySession{id: a.header.Get("Mcp-Session-Id")}).headers()
	if session.Get("Mcp-Session-Id") == "" {
		l.fail("initialize has brought no session: %s", a.body)
		return nil, false
	}
	_, ok = l.ask(l.ctx, client, plain(session, request{method: "notifications/initialized", legacy: true}))
	return session, ok
}

// task begins a task, and asks for it until it has ended. If there is no answer, or no store, it asks again: the
// ledger says whether that may be.
func (l *load) task(client *http.Client) bool {
	label := fmt.Sprint("label ", l.ids.Add(1))
	id, a, err := l.exchange(client, "task", nil, tasking(call(nil, "slow_compute", object{"seconds": 0.3, "label": label})))
	var begun taskOf
	if err != nil || json.Unmarshal([]byte(a.body), &begun) != nil || begun.Result.TaskID == "" {
		l.lose(id, "%d %s %v", a.status, a.body, err)
		return false
	}
	get := aboutTask(0, "tasks/get", begun.Result.TaskID)
	headers := get.headers()
	headers.Set("Mcp-Name", begun.Result.TaskID)
	for end := time.Now().Add(2 * patience); l.ctx.Err() == nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		a, _ := l.ask(l.ctx, client, plain(headers, get))
		var now taskState
		if json.Unmarshal([]byte(a.body), &now) != nil {
			continue
		}
		switch {
		case now.Result.Status == "completed" && strings.Contains(a.body, label):
			l.answered(id)
			return true
		case now.Result.Status == "failed":
			l.lose(id, "%s", now.Result.Error.Data.Reason)
			return false
		case now.Result.Status != "working" && !strings.Contains(a.body, noTaskStore) && a.status < 500:
			l.lose(id, "tasks/get: %d %s", a.status, a.body)
			return false
		}
	}
	l.lose(id, "the task has not ended")
	return false
}

// noTaskStore is what a server says of a task while it has no store.
const noTaskStore = "the store that has the tasks is away"
