package task

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
	"github.com/vitrine-mcp/vitrine/store"
)

// An input is the source of answers for a task. It waits for tasks/update.
type input struct {
	task   *task
	dialog *ask.Dialog
}

// Context implements ask.Source. The context of the call is over.
func (in *input) Context() context.Context { return in.task.ctx() }

// Ask implements ask.Source.
func (in *input) Ask(key string, q ask.Question) (jsontext.Value, error) {
	t := in.task
	params, err := ask.EncodeParams(q.Method, q.Params)
	if err != nil {
		return nil, err
	}
	if params != nil {
		q.Params = params
	}
	return in.dialog.Send(t.ctx(), q.Method, params, func(_ context.Context, params jsontext.Value) (jsontext.Value, error) {
		if params != nil {
			q.Params = params
		}
		return t.await(key, q)
	})
}

// await writes a question into the record and waits for its answer.
func (t *task) await(key string, q ask.Question) (answer jsontext.Value, err error) {
	w := &waiter{Question: q, answer: make(chan jsontext.Value, 1)}
	key = t.wait(key, w)
	defer t.forget(key)
	if err = t.open(key, q.InputRequest); err != nil {
		return nil, err
	}
	answered := observe.TaskAsks(t.work, q.Method)
	defer func() { answered(err) }()
	t.work.Block()
	defer func() {
		if lost := t.work.Unblock(); lost != nil {
			answer, err = nil, lost
		}
	}()
	select {
	case answer = <-w.answer:
		return answer, nil
	case <-t.ctx().Done():
		return nil, context.Cause(t.ctx())
	}
}

// wait enters a waiter and returns its key. That is the handler's key if it is new, else one with
// a number, because a task uses each key once. A further run of the handler does not know the keys of earlier ones,
// and so has its own number in each.
func (t *task) wait(key string, w *waiter) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run > 1 {
		key += "-run" + strconv.Itoa(t.run)
	}
	name := key
	for {
		t.asked[key]++
		n := t.asked[key]
		if n > 1 {
			name = key + "-" + strconv.Itoa(n)
			if t.asked[name] > 0 { // the handler has used this key itself
				continue
			}
			t.asked[name]++
		}
		t.waiting[name] = w
		return name
	}
}

func (t *task) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, key)
}

// open writes a question into the record.
func (t *task) open(key string, q mcp.InputRequest) error {
	t.mu.Lock()
	taken := t.taken
	t.taken = nil
	t.mu.Unlock()
	limit := t.records.core.Limits().MaxOutbound
	_, err := t.change(func(rec *store.TaskRecord) error {
		if len(rec.InputRequests) >= limit {
			return session.Overload(limits.NameOutbound)
		}
		for _, key := range taken {
			delete(rec.InputResponses, key)
		}
		askClient(rec, key, q)
		return nil
	})
	switch {
	case errors.Is(err, errTaskOver), errors.Is(err, errTakenOver): // the handler is being cancelled, too
		<-t.ctx().Done()
		return context.Cause(t.ctx())
	case err != nil: // change has logged it
		return told(err)
	}
	return nil
}

// deliver passes an answer to its waiter. One that is malformed, or for whose value there is no room, is asked for again:
// another replica has accepted it, because it cannot check answers. Meanwhile the question may have been asked again and have
// another answer, which stays.
func (t *task) deliver(key string, answer jsontext.Value) {
	w := t.waiter(key)
	if w == nil {
		return
	}
	if err := t.give(w, key, answer); err != nil {
		_, _ = t.change(func(rec *store.TaskRecord) error {
			if now, answered := rec.InputResponses[key]; answered && sameAnswer(now, answer) && t.waiter(key) == w {
				askClient(rec, key, w.InputRequest)
				rec.StatusMessage = taskText(notAccepted(key, err))
			}
			return nil
		})
	}
}

// sameAnswer reports whether two answers are the same JSON, in whatever form a store has written them; numbers are compared as
// float64. Answers that it cannot compare count as the same, so that the question is asked again.
func sameAnswer(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize() != nil || b.Canonicalize() != nil || bytes.Equal(a, b)
}

// give passes a valid answer to its waiter, unless it has one. It judges one answer at a time: each change of the record brings those
// that it still has.
func (t *task) give(w *waiter, key string, answer jsontext.Value) error {
	w.judging.Lock()
	defer w.judging.Unlock()
	if t.waiter(key) != w {
		return nil
	}
	if err := t.judge(w, answer, true); err != nil {
		return err
	}
	t.mu.Lock()
	first := t.waiting[key] == w
	if first {
		delete(t.waiting, key)
		t.taken = append(t.taken, key)
	}
	t.mu.Unlock()
	if first {
		w.answer <- answer
	}
	return nil
}

// waiter returns who waits for the answer to a question, or nil.
func (t *task) waiter(key string) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[key]
}

// sift returns the valid answers to open questions, and what is wrong with the first invalid
// one, or "". It returns an error if there is no room for the value of one. t is nil for a task that runs in another process.
func (t *task) sift(rec *store.TaskRecord, answers jsontext.Value) (good map[string]jsontext.Value, message string, err error) {
	good, _ = wire.Pick(answers, func(key []byte) bool { _, open := rec.InputRequests[string(key)]; return open })
	for key, answer := range good {
		if err := t.check(key, answer); err != nil {
			if noRoom, ok := errors.AsType[ask.NoRoomError](err); ok {
				return nil, "", noRoom.Err
			}
			message = cmp.Or(message, notAccepted(key, err))
			delete(good, key)
		}
	}
	return good, taskText(message), nil
}

// What the message of a task begins with whose client must answer again.
const (
	noRoomFor = "there was no room for the answer to %q"
	notValid  = "the answer to %q is not valid"
)

// notAccepted is the message of a task whose client must answer again.
func notAccepted(key string, err error) string {
	if _, is := errors.AsType[ask.NoRoomError](err); is {
		return fmt.Sprintf(noRoomFor+", please send it again: %v", key, err)
	}
	return fmt.Sprintf(notValid+": %v", key, err)
}

// asksAgain reports whether a message asks for an answer again.
func asksAgain(message, key string) bool {
	return slices.ContainsFunc([]string{noRoomFor, notValid}, func(begin string) bool {
		return strings.HasPrefix(message, taskText(fmt.Sprintf(begin, key)))
	})
}

func (t *task) check(key string, answer jsontext.Value) error {
	if t == nil {
		return nil
	}
	w := t.waiter(key)
	if w == nil {
		return nil
	}
	return t.judge(w, answer, false)
}

// judge checks an answer. It recovers panics, because it runs the user's code on a goroutine that
// may belong to the store.
func (t *task) judge(w *waiter, answer jsontext.Value, keep bool) (err error) {
	err = errUnjudged
	defer func() {
		if err == errUnjudged {
			t.work.Panicked(recover(), debug.Stack())
		}
	}()
	return w.Check(answer, keep)
}

// errUnjudged says that the check has panicked.
var errUnjudged = errors.New("it could not be checked")

// changed is called with the new record after each change, in any order.
func (t *task) changed(rec *store.TaskRecord) {
	if t.isClaiming(rec) {
		return
	}
	if t.takenOver(rec) {
		t.work.Cancel(&mcp.CancelError{Cause: mcp.CauseReplicaLost})
		return
	}
	t.mu.Lock()
	if rec.Revision >= t.revision && !t.seen.Terminal() {
		t.seen, t.revision = rec.Status, rec.Revision
		t.work.SetStatus(rec.Status)
	}
	t.mu.Unlock()
	switch {
	case rec.Status == mcp.TaskCancelled:
		t.work.Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel})
	case isLost(rec):
		t.work.Cancel(&mcp.CancelError{Cause: mcp.CauseReplicaLost})
	}
	for key, answer := range rec.InputResponses {
		t.deliver(key, answer)
	}
}
