package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A listener is a caller that has subscribed to all it can in phase 0, on a byte stream.
type listener struct {
	*user
	uris  []string
	tasks map[string]*ruledItem // by id, with the tool
}

func newListener(t *testing.T, w *ruledWorld, c ruledCaller, modern bool, seen map[string]int) *listener {
	c.transport = "memory"
	l := &listener{user: &user{T: t, ruledCaller: &c, w: w, modern: modern, seen: seen}, tasks: map[string]*ruledItem{}}
	l.pipe = dialContext(t, as(c.token), w.srv)
	filtered := []string{"z:nothing"}
	if !modern {
		c.client = "old"
		l.pipe.initialize("2025-11-25")
	}
	needed := map[string]bool{}
	for _, of := range w.uris() {
		_, v, _ := w.judgeURI(&c, of)
		if v.effect == auth.Allow {
			l.uris = append(l.uris, of)
		}
		if v.effect != auth.NeedScopes {
			filtered = append(filtered, of)
		}
		for _, s := range v.scopes {
			needed[s] = true
		}
	}
	if !modern {
		for _, of := range l.uris {
			require.Contains(t, l.ask("resources/subscribe", "", uri(of)).body, `"result":{}`)
		}
		return l
	}
	if len(needed) > 0 { // all in one challenge
		l.checkChallenge(verdict{auth.NeedScopes, slices.Sorted(maps.Keys(needed))},
			l.ask("subscriptions/listen", "", `"notifications":{"resourceSubscriptions":`+list(w.uris())+`}`), "all URIs")
	}
	l.begin(filtered)
	return l
}

// begin starts a task of each tool, and subscribes to everything. What the caller may not see is not
// acknowledged, as what does not exist.
func (l *listener) begin(uris []string) {
	calling := dialContext(l.T, as(l.token), l.w.srv)
	for _, it := range l.w.items {
		if it.task && l.w.judge(l.ruledCaller, it, "", `{"v":"1"}`, false).effect == auth.Allow {
			l.tasks[taskID(l.T, calling.ask(withCaps(1, "tools/call", withTasks, call(it.key, `{"v":"1"}`))))] = it
		}
	}
	l.subscribe(uris, l.uris, slices.Sorted(maps.Keys(l.tasks)))
}

// subscribe checks that a subscription to URIs and all tasks is acknowledged for some.
func (l *listener) subscribe(uris, granted, tasks []string) {
	l.Helper()
	for _, v := range uris {
		effect := auth.Deny
		if slices.Contains(granted, v) {
			effect = auth.Allow
		}
		l.seen["subscriptions/listen "+effect.String()]++
	}
	all := []string{"nobodys"}
	for id, tool := range l.tasks {
		if l.w.judge(l.ruledCaller, tool, "", "", true).effect != auth.NeedScopes {
			all = append(all, id)
			continue
		}
		require.Contains(l, l.pipe.ask(withCaps(1, "subscriptions/listen", withTasks, `"notifications":{"taskIds":`+list([]string{id})+`}`)), "this needs the scopes")
	}
	answer := l.pipe.ask(withCaps(1, "subscriptions/listen", withTasks, `"notifications":{"toolsListChanged":true,"promptsListChanged":true,`+
		`"resourcesListChanged":true,"resourceSubscriptions":`+list(uris)+`,"taskIds":`+list(all)+`}`))
	var ack struct {
		Params struct {
			Notifications struct{ ResourceSubscriptions, TaskIDs []string }
		}
	}
	require.NoError(l, json.Unmarshal([]byte(answer), &ack))
	require.ElementsMatch(l, granted, ack.Params.Notifications.ResourceSubscriptions, "%s for %+v", answer, l.ruledCaller)
	require.ElementsMatch(l, tasks, ack.Params.Notifications.TaskIDs, "%s for %+v", answer, l.ruledCaller)
}

// list returns a JSON array.
func list(all []string) string {
	raw, _ := json.Marshal(append([]string{}, all...))
	return string(raw)
}

// told returns what the server has sent since the last call: the methods, and what they are about.
func (l *listener) told() (all map[string]bool) {
	all = map[string]bool{}
	synctest.Wait()
	for len(l.pipe.lines) > 0 {
		line := l.pipe.recv()
		var n struct {
			Method string
			Params struct{ URI, TaskID string }
		}
		require.NoError(l, json.Unmarshal([]byte(line), &n), line)
		all[strings.TrimSpace(n.Method+" "+n.Params.URI+n.Params.TaskID)] = true
		synctest.Wait()
	}
	return all
}

// mayKnow reports whether the listener is told of an update of a URI. The nearest item decides that the URI
// names or is a part of.
func (l *listener) mayKnow(of string) bool {
	if !slices.ContainsFunc(l.uris, func(whole string) bool { return of == whole || strings.HasPrefix(of, whole+"/") }) {
		return false
	}
	for at := of; ; at = at[:strings.LastIndex(at, "/")] {
		if by, _, hidden := l.w.judgeURI(l.ruledCaller, at); by != nil || hidden {
			return by != nil
		}
	}
}

// checkChanges changes everything, and checks which listeners are told.
func checkChanges(w *ruledWorld, listeners []*listener) {
	for _, l := range listeners {
		l.told() // of the new rules
	}
	check := func(change string, want func(l *listener) map[string]bool) {
		for _, l := range listeners {
			expected := want(l)
			for what, told := range expected {
				l.seen[strings.Fields(what)[0]+map[bool]string{true: " told", false: " not told"}[told]]++
			}
			maps.DeleteFunc(expected, func(_ string, told bool) bool { return !told })
			require.Equal(l, expected, l.told(), "%s for %+v, modern %v", change, l.ruledCaller, l.modern)
		}
	}
	lists := map[string]string{auth.KindTool: toolsChanged, auth.KindPrompt: promptsChanged, auth.KindResource: resourcesChanged, auth.KindTemplate: resourcesChanged}
	for _, it := range slices.Clone(w.items) {
		listed := func(l *listener) map[string]bool {
			return map[string]bool{lists[it.kind]: w.judge(l.ruledCaller, it, "", "", true).effect != auth.Deny}
		}
		w.add(it, fmt.Sprint("in phase ", w.phase.Load()))
		check("replace "+it.key, func(l *listener) map[string]bool {
			want := listed(l)
			if it.kind == auth.KindResource {
				want["notifications/resources/updated "+it.key] = l.mayKnow(it.key)
			}
			return want
		})
		w.remove(it)
		check("remove "+it.key, listed)
		w.add(it, "")
		check("add "+it.key, listed)
	}
	for _, of := range w.uris() {
		for _, part := range []string{of, of + "/part"} {
			w.srv.ResourceUpdated(part)
			check("update "+part, func(l *listener) map[string]bool {
				return map[string]bool{"notifications/resources/updated " + part: l.mayKnow(part)}
			})
		}
	}
}

// checkTasks uses the tasks of phase 0 in phase 1, and ends them.
func checkTasks(w *ruledWorld, listeners []*listener) {
	verdicts := func(l *listener, id string) verdict { return w.judge(l.ruledCaller, l.tasks[id], "", "", true) }
	use := func(l *listener, methods ...string) {
		if len(l.tasks) == 0 {
			return
		}
		u := *l.user
		u.pipe = dialContext(l.T, as(l.token), w.srv)
		for id := range l.tasks {
			for _, method := range methods {
				u.check(verdicts(l, id), nil, id, method, fmt.Sprintf(`"taskId":%q,"inputResponses":{}`, id))
			}
		}
	}
	for _, l := range listeners {
		use(l, "tasks/get", "tasks/update")
	}
	close(w.finish)
	for _, l := range listeners {
		want := map[string]bool{}
		for id := range l.tasks {
			told := verdicts(l, id).effect == auth.Allow
			if l.seen["notifications/tasks"+map[bool]string{true: " told", false: " not told"}[told]]++; told {
				want["notifications/tasks "+id] = true
			}
		}
		require.Equal(l, want, l.told(), "%+v", l.ruledCaller)
		if l.modern {
			again := *l
			var granted, known []string
			var uris []string
			for _, of := range w.uris() {
				_, v, _ := w.judgeURI(l.ruledCaller, of)
				if v.effect == auth.Allow {
					granted = append(granted, of)
				}
				if v.effect != auth.NeedScopes {
					uris = append(uris, of)
				}
			}
			for id := range l.tasks {
				if verdicts(l, id).effect == auth.Allow {
					known = append(known, id)
				}
			}
			again.user = &user{T: l.T, ruledCaller: l.ruledCaller, w: w, modern: true, seen: l.seen, pipe: dialContext(l.T, as(l.token), w.srv)}
			again.subscribe(uris, granted, known)
		}
	}
	for _, l := range listeners {
		use(l, "tasks/get", "tasks/cancel")
	}
}
