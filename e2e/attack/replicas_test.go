package attack

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// In these tests ann works at one replica, and bob, another principal, attacks her at another one. Both replicas have
// the same keys and the same store, so that what is hers is known at both.

// twoReplicas starts two servers with one store. The returned function checks that other callers of both were not
// disturbed.
func twoReplicas(t *testing.T, args ...string) (first, second *target, undisturbed func()) {
	t.Helper()
	all, _ := stored(t, 2, args...)
	at, there := all[0].others(t), all[1].others(t)
	return all[0], all[1], func() {
		t.Helper()
		at()
		there()
	}
}

// tellsTheSame reports whether two responses tell their reader the same.
func (r response) tellsTheSame(other response) bool {
	mine, others := r.header.Clone(), other.header.Clone()
	mine.Del("Date")
	others.Del("Date")
	return r.status == other.status && r.body == other.body && maps.EqualFunc(mine, others, slices.Equal)
}

// findsNoSession sends a request with the session id of another caller. The response must be the one for an id that
// nobody has.
func (c *caller) findsNoSession(t *testing.T, method string, header http.Header, body string) {
	t.Helper()
	unknown := header.Clone()
	unknown.Set("Mcp-Session-Id", strings.Repeat("A", len(header.Get("Mcp-Session-Id"))))
	want := c.must(t, method, unknown, body)
	if r := c.must(t, method, header, body); r.status != http.StatusNotFound || !r.tellsTheSame(want) {
		t.Errorf("%s %s in the session of another: %d %s; an unknown session: %d %s", method, body, r.status, r.body, want.status, want.body)
	}
}

// awaitUnknown waits until the replica has taken n signals of the other one that were about nothing.
func (s *target) awaitUnknown(t *testing.T, n float64, before signals) {
	t.Helper()
	eventually(t, func() error {
		if now := s.signals(t, before); now.unknown < n {
			return fmt.Errorf("of %v signals about nothing the replica counts %+v", n, now)
		}
		return nil
	})
}

// A caller who knows the id of another's question, and even the id of the session, answers it at no replica. The
// question waits for the caller who was asked.
func TestOthersAnswerNoQuestionAtAnotherReplica(t *testing.T) {
	t.Parallel()
	first, second, undisturbed := twoReplicas(t)
	ann, bob := first.caller(t, bystanders, "ann"), first.caller(t, attacker, "bob")
	ann.initialize(t)
	bob.initialize(t)
	asking := ann.openStream(t, http.MethodPost, ann.sessionHeader(), call{tool: "ask"}.frame("deep", false))
	question := string(asking.next(t).ID)
	bobThere := bob.at(t, second, attacker)
	answers := []string{
		`{"jsonrpc":"2.0","id":` + question + `,"result":{"action":"accept","content":{"ok":false}}}`,
		`{"jsonrpc":"2.0","id":` + question + `,"error":{"code":1,"message":"no"}}`,
	}
	steal := func() {
		t.Helper()
		for _, answer := range answers {
			bobThere.findsNoSession(t, http.MethodPost, ann.sessionHeader(), answer)
		}
	}
	steal() // from the id alone
	annThere := ann.at(t, second, bystanders)
	steal() // when the replica has an object of the session

	before := first.signals(t, signals{})
	for _, answer := range answers {
		if r := bobThere.must(t, http.MethodPost, bobThere.sessionHeader(), answer); r.status != http.StatusAccepted {
			t.Errorf("%s in a session that was not asked: %d %s", answer, r.status, r.body)
		}
	}
	first.awaitUnknown(t, float64(len(answers)), before)
	if !asking.open() {
		t.Error("the call whose question others have answered has ended")
	}
	annThere.answer(t, question)
	if a := asking.next(t); a.text() != "true" {
		t.Errorf("the call whose question was answered by the caller who was asked: %+v", a)
	}
	undisturbed()
}

// A caller who knows the id of another's request, and even the id of the session, cancels it at no replica.
func TestOthersCancelNothingAtAnotherReplica(t *testing.T) {
	t.Parallel()
	first, second, undisturbed := twoReplicas(t)
	ann, bob := first.caller(t, bystanders, "ann"), first.caller(t, attacker, "bob")
	ann.initialize(t)
	bob.initialize(t)
	running := ann.begin(t, ann.sessionHeader(), call{tool: "sleep", arguments: `{"ms":600000}`}.frame("deep", false))
	first.awaitInFlight(t, "sleep", 3)
	bobThere := bob.at(t, second, attacker)
	cancel := `"notifications/cancelled","params":{"requestId":"deep"}`
	frame := `{"jsonrpc":"2.0","method":` + cancel + `}`
	bobThere.findsNoSession(t, http.MethodPost, ann.sessionHeader(), frame) // from the id alone
	annThere := ann.at(t, second, bystanders)
	bobThere.findsNoSession(t, http.MethodPost, ann.sessionHeader(), frame) // when the replica has an object of the session

	before := first.signals(t, signals{})
	bobThere.notify(t, cancel)
	modern := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"deep",` + fmt.Sprintf(modernMeta, "") + `}}`
	bobThere.must(t, http.MethodPost, call{method: "notifications/cancelled"}.header(), modern)
	first.awaitUnknown(t, 1, before)
	if !running.unanswered() {
		t.Error("the call that others have cancelled has ended")
	}
	annThere.notify(t, cancel)
	if r := running.wait(t); r.code() != codeCancelled {
		t.Errorf("the call that its caller has cancelled at another replica: %d %s", r.status, r.body)
	}
	undisturbed()
}

// A caller who knows ids of events of another's stream resumes it at no replica, and cannot tell such an id from one
// that was made up. The stream goes on for the caller whose it is, at either replica.
func TestOthersResumeNoStreamAtAnotherReplica(t *testing.T) {
	t.Parallel()
	first, second, undisturbed := twoReplicas(t)
	ann, bob := first.caller(t, bystanders, "ann"), first.caller(t, attacker, "bob")
	ann.initialize(t)
	bob.initialize(t)
	ask := func(c *caller) *stream {
		return c.openStream(t, http.MethodPost, c.sessionHeader(), call{tool: "ask"}.frame("deep", false))
	}
	asking, bobAsking := ask(ann), ask(bob)
	question := string(asking.next(t).ID)
	bobAsking.next(t)
	bobThere := bob.at(t, second, attacker)

	resume := func(c *caller, event string) http.Header {
		h := c.sessionHeader()
		h.Set("Last-Event-Id", event)
		h.Set("Accept", "text/event-stream")
		return h
	}
	session, rest, _ := strings.Cut(asking.lastID, "-")
	stream, seq, _ := strings.Cut(rest, "-")
	own, _, _ := strings.Cut(bobAsking.lastID, "-")
	look := func() {
		t.Helper()
		bobThere.findsNoSession(t, http.MethodGet, resume(ann, asking.lastID), "")
		unknown := bobThere.must(t, http.MethodGet, resume(bob, session+"-"+stream+"zzz-"+seq), "")
		if unknown.status != http.StatusBadRequest {
			t.Errorf("an unknown event: %d %s", unknown.status, unknown.body)
		}
		for _, event := range []string{
			asking.lastID, session + "-" + stream + "-1", session + "-" + stream + "-99", // hers, as they are
			own + "-" + stream + "-" + seq, own + "-" + stream + "-1", own + "-" + stream + "-99", own + "-" + stream + "zzz-1", // as if they were his
		} {
			if r := bobThere.must(t, http.MethodGet, resume(bob, event), ""); !r.tellsTheSame(unknown) {
				t.Errorf("events after %s: %d %v %s; an unknown event: %d %v %s", event, r.status, r.header, r.body, unknown.status, unknown.header, unknown.body)
			}
		}
	}
	look() // while ann reads the stream at its own replica
	if !asking.open() {
		t.Error("the stream that others have asked for has ended")
	}
	asking.cancel()
	annThere := ann.at(t, second, bystanders)
	resumed := annThere.openStream(t, http.MethodGet, resume(ann, asking.lastID), "")
	if resumed.status != http.StatusOK {
		t.Fatalf("the caller whose stream it is resumes it at another replica: %d", resumed.status)
	}
	look() // while ann reads it where bob asks
	annThere.answer(t, question)
	if a := resumed.next(t); a.text() != "true" {
		t.Errorf("the rest of the stream at another replica: %+v", a)
	}
	look() // when the stream has ended, and only the store has it
	bob.must(t, http.MethodDelete, bob.sessionHeader(), "")
	undisturbed()
}

// A task of another principal looks as if there were none, also at the replica that does not run it. Nobody else gets
// it, cancels it, answers its question or hears of it.
func TestTasksOfOthersAreUnknownAtAnotherReplica(t *testing.T) {
	t.Parallel()
	first, second, undisturbed := twoReplicas(t)
	ann, annThere := first.caller(t, bystanders, "ann"), second.caller(t, bystanders, "ann")
	task := ann.detached(t, call{tool: "permit", extension: true})
	hasStatus := func(want string) {
		t.Helper()
		eventually(t, func() error {
			if r := annThere.modern(t, 1, about("tasks/get", task, "")); r.Result == nil || r.Result.Status != want {
				return fmt.Errorf("the task at another replica is not %s: %d %s", want, r.status, r.body)
			}
			return nil
		})
	}
	hasStatus("input_required")
	made := strings.Repeat("A", len(task))
	listen := func(c *caller, id string) (st *stream, acknowledged string) {
		t.Helper()
		what := call{method: "subscriptions/listen", params: `"notifications":{"taskIds":[` + quote(id) + `]}`, extension: true}
		st = c.openStream(t, http.MethodPost, what.header(), what.frame("listen", true))
		return st, string(st.next(t).Params)
	}
	var others []*stream
	for _, name := range []string{"bob", ""} {
		other := second.caller(t, attacker, name)
		for method, members := range map[string]string{"tasks/get": "", "tasks/update": accepted, "tasks/cancel": ""} {
			unknown, r := other.modern(t, 1, about(method, made, members)), other.modern(t, 1, about(method, task, members))
			unknown.body = strings.ReplaceAll(unknown.body, made, task)
			if r.code() != codeInvalidParams || !r.tellsTheSame(unknown) {
				t.Errorf("%s of another's task by %q: %d %s; an unknown task: %d %s", method, name, r.status, r.body, unknown.status, unknown.body)
			}
		}
		st, got := listen(other, task)
		if _, unknown := listen(other, made); got != unknown {
			t.Errorf("a subscription to another's task by %q: %s; to an unknown one: %s", name, got, unknown)
		}
		others = append(others, st)
	}
	hasStatus("input_required")
	mine, acknowledged := listen(annThere, task)
	if !strings.Contains(acknowledged, task) {
		t.Errorf("a subscription of the task's own caller at another replica: %s", acknowledged)
	}
	if r := annThere.modern(t, 1, about("tasks/update", task, accepted)); r.Error != nil {
		t.Errorf("the answer of the task's own caller at another replica: %d %s", r.status, r.body)
	}
	for !strings.Contains(string(mine.next(t).Params), `"completed"`) {
		continue // until the task's own caller hears of its end
	}
	for _, st := range others {
		if !st.open() {
			t.Error("a caller has heard of the task of another, or its subscription has ended")
		}
	}
	hasStatus("completed")
	undisturbed()
}

// A state that may be used once, and that comes to two replicas at the same moment, is accepted by one of them. Another
// principal who sends it before is refused, and does not use it up.
func TestOneOfTwoReplicasAcceptsAState(t *testing.T) {
	t.Parallel()
	const rounds = 200
	first, second, undisturbed := twoReplicas(t, "--single-use-states")
	replicas := []*target{first, second}
	var anns, bobs []*caller
	for _, s := range replicas {
		anns, bobs = append(anns, s.caller(t, bystanders, "ann")), append(bobs, s.caller(t, attacker, "bob"))
	}
	for round := range rounds {
		use := pay(5).with(consent(anns[round%2].asked(t, pay(5))))
		if r := bobs[(round+1)%2].modern(t, 1, use); r.code() != codeInvalidParams {
			t.Fatalf("the state of another: %d %s", r.status, r.body)
		}
		var used [2]response
		var failed [2]error
		var both sync.WaitGroup
		start := make(chan struct{})
		for i, ann := range anns {
			both.Go(func() {
				<-start
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				used[i], failed[i] = ann.send(ctx, http.MethodPost, use.header(), use.frame(1, true))
			})
		}
		close(start)
		both.Wait()
		accepted, refused := 0, 0
		for i := range used {
			switch r := &used[i]; {
			case failed[i] != nil:
				t.Fatalf("round %d: %v", round, failed[i])
			case r.text() == "paid":
				accepted++
			case r.code() == codeInvalidParams && r.Error.Data.Reason == "state_used":
				refused++
			}
		}
		if accepted != 1 || refused != 1 {
			t.Fatalf("round %d: %d %s, and at the other replica %d %s", round, used[0].status, used[0].body, used[1].status, used[1].body)
		}
	}
	paid := 0
	for _, ann := range anns {
		n := 0
		if r := ann.modern(t, 1, call{tool: "paid"}); r.Result != nil {
			_, _ = fmt.Sscan(r.text(), &n) // or n stays 0
		}
		paid += n
	}
	if paid != rounds {
		t.Errorf("the replicas have paid %d times for %d states", paid, rounds)
	}
	undisturbed()
}
