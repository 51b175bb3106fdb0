package server_test

import (
	"net/http/httptest"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

import ()

// This file has the states of questions to modern clients: the answers come with a state, to any replica, and a state
// is accepted once by all of them.

// A modelState is a state that a client has got with a question.
type modelState struct {
	text  string
	round int // of the question: 1 or 2
	// used says that a replica has accepted it, or that one may have: it had no answer of the store.
	used, perhaps bool
}

// modernRound posts a call of the tool two, and returns the state and the reason of a refusal.
func (w *modelWorld) modernRound(r *modelReplica, params string) (answer, state, reason string) {
	out := httptest.NewRecorder()
	r.srv.Handler().ServeHTTP(out, modernRequest(asking(1, "tools/call", params), "two"))
	var f struct {
		Result struct{ RequestState string }
		Error  struct{ Data struct{ Reason string } }
	}
	require.NoError(w.t, json.Unmarshal(out.Body.Bytes(), &f, json.MatchCaseInsensitiveNames(true)), out.Body)
	return out.Body.String(), f.Result.RequestState, f.Error.Data.Reason
}

// askModern makes a call that asks its client, at any replica.
func (w *modelWorld) askModern() bool {
	r := w.anyReplica()
	w.note("a modern call asks at %s", r.name)
	answer, state, _ := w.modernRound(r, call("two", "{}"))
	require.NotEmpty(w.t, state, answer)
	w.states = append(w.states, &modelState{text: state, round: 1})
	return true
}

// useState makes the call again with the answer, at any replica, perhaps not for the first time.
func (w *modelWorld) useState() bool {
	w.rest()
	if len(w.states) == 0 {
		return false
	}
	r, at := w.anyReplica(), w.random.IntN(len(w.states))
	s := w.states[at]
	w.note("state %d (used %t, perhaps %t) at %s", at, s.used, s.perhaps, r.name)
	fault, _ := r.port.state()
	name := []string{"one", "two"}[s.round-1]
	answer, next, reason := w.modernRound(r, retry(call("two", "{}"), s.text, name, accepted("1")))
	w.note("  %s", answer)
	switch {
	case reason == string(mcp.StateUnchecked): // "is refused (state_unchecked), because it may have been used elsewhere"
		require.False(w.t, r.well(), "%s has the store", r.name)
		s.perhaps = s.perhaps || fault == unanswered
	case reason == string(mcp.StateUsed):
		require.True(w.t, s.used || s.perhaps, "the state is new")
		s.used = true
	case reason != "":
		require.Fail(w.t, "the state is refused", answer)
	default:
		require.False(w.t, s.used, "the state is used twice")
		require.Contains(w.t, []modelFault{noFault}, fault, "a replica without the store accepts a state")
		s.used = true
		if s.round == 1 {
			require.NotEmpty(w.t, next, answer)
			w.states = append(w.states, &modelState{text: next, round: 2})
		} else {
			require.Contains(w.t, answer, `"resultType":"complete"`)
		}
	}
	return true
}

// useStateTwice makes a call again at two replicas at the same time: one of them accepts the state, if one has the store.
func (w *modelWorld) useStateTwice() bool {
	w.rest()
	var fresh []*modelState
	for _, s := range w.states {
		if s.round == 1 && !s.used && !s.perhaps {
			fresh = append(fresh, s)
		}
	}
	if len(fresh) == 0 || !w.allWell() {
		return false
	}
	s, at := pick(w, fresh), []*modelReplica{w.anyReplica(), w.anyReplica()}
	w.note("a state at %s and %s at the same time", at[0].name, at[1].name)
	var next [2]string
	var wg sync.WaitGroup
	for i, r := range at {
		wg.Go(func() {
			_, next[i], _ = w.modernRound(r, retry(call("two", "{}"), s.text, "one", accepted("1")))
		})
	}
	wg.Wait()
	require.NotEqual(w.t, next[0] == "", next[1] == "", "one of two accepts a state")
	s.used = true
	w.states = append(w.states, &modelState{text: next[0] + next[1], round: 2})
	return true
}
