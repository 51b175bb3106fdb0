package server_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

var (
	agreementSeeds = flag.Uint64("agreement.seeds", 12, "how many random worlds TestListsAndUsesAgree tries")
	agreementSeed  = flag.Uint64("agreement.seed", 0, "the one seed of TestListsAndUsesAgree; 0 is all")
)

// Lists and uses agree: what a caller does not see in a list it cannot use in any way, and each use is
// answered as if the item did not exist; what a list shows can be used with some arguments, or is challenged.
// Changes of what a caller does not see are not announced to it.
func TestListsAndUsesAgree(t *testing.T) {
	first, last := uint64(1), *agreementSeeds
	if *agreementSeed != 0 {
		first, last = *agreementSeed, *agreementSeed
	}
	seen := map[string]int{}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { agree(t, newRuledWorld(t, seed), seen) })
		})
	}
	if *agreementSeed == 0 {
		for _, what := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete", "resources/subscribe",
			"resources/unsubscribe", "subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel"} {
			for _, effect := range []auth.Effect{auth.Allow, auth.NeedScopes, auth.Deny} {
				require.NotZero(t, seen[what+" "+effect.String()], "%s %s was never tried: %v", what, effect, seen)
			}
		}
		require.NotZero(t, seen["second choice"])
		for _, what := range []string{toolsChanged, promptsChanged, resourcesChanged, "notifications/resources/updated", "notifications/tasks"} {
			require.NotZero(t, seen[what+" told"], what)
			require.NotZero(t, seen[what+" not told"], what)
		}
	}
}

// agree checks one world in both phases. seen counts what was tried.
func agree(t *testing.T, w *ruledWorld, seen map[string]int) {
	var listeners []*listener
	for phase := range int32(2) {
		w.phase.Store(phase)
		w.srv.PoliciesChanged()
		for _, c := range w.callers {
			for _, modern := range []bool{true, false} {
				u := newUser(t, w, *c, modern, seen)
				u.checkLists()
				u.checkItems()
				u.checkURIs()
				if phase == 0 {
					listeners = append(listeners, newListener(t, w, *c, modern, seen))
				}
				u.leave()
			}
		}
		checkChanges(w, listeners)
	}
	checkTasks(w, listeners)
}

// A user is a caller of one era, on a byte stream or over HTTP.
type user struct {
	*testing.T
	*ruledCaller
	w       *ruledWorld
	modern  bool
	session string          // the header of a legacy session over HTTP
	pipe    *rawPipe        // nil over HTTP
	shown   map[string]bool // the kinds and keys of what lists show
	seen    map[string]int
}

func newUser(t *testing.T, w *ruledWorld, c ruledCaller, modern bool, seen map[string]int) *user {
	u := &user{T: t, w: w, ruledCaller: &c, modern: modern, seen: seen}
	if c.transport = []string{"memory", "http"}[w.random.IntN(2)]; c.transport == "memory" {
		u.pipe = dialContext(t, as(c.token), w.srv)
	}
	if modern {
		return u
	}
	if c.client = "old"; u.pipe != nil {
		u.pipe.initialize("2025-11-25")
		return u
	}
	answer := <-inBackground(w.srv, "POST", legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}`), u.headers()...)
	u.session = "Mcp-Session-Id: " + answer.Header().Get("Mcp-Session-Id")
	<-inBackground(w.srv, "POST", notice("notifications/initialized", ""), u.headers()...)
	return u
}

// leave ends the connection, so that nothing more arrives.
func (u *user) leave() {
	if u.pipe != nil {
		u.pipe.hangUp()
	} else if !u.modern {
		<-inBackground(u.w.srv, "DELETE", "", u.headers()...)
	}
}

func (u *user) headers(more ...string) []string {
	if u.token != "" {
		more = append(more, "Authorization: "+u.token)
	}
	if u.session != "" {
		more = append(more, u.session)
	}
	return more
}

// An outcome is all that the caller gets for a request.
type outcome struct {
	status int
	header http.Header
	body   string
}

// ask sends a request. name is what it names in its header, or "".
func (u *user) ask(method, name, params string) outcome {
	frame := legacy(1, method, params)
	switch {
	case u.modern && strings.HasPrefix(method, "tasks/"):
		frame = withCaps(1, method, withTasks, params)
	case u.modern:
		frame = modern(1, method, params)
	}
	if u.pipe != nil {
		return outcome{body: u.pipe.ask(frame)}
	}
	headers := u.headers()
	if u.modern {
		headers = append(headers, "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: "+method)
		if name != "" {
			headers = append(headers, "Mcp-Name: "+name)
		}
	}
	got := <-inBackground(u.w.srv, "POST", frame, headers...)
	return outcome{got.Code, got.Header(), got.Body.String()}
}

// checkLists reads all pages of all lists.
func (u *user) checkLists() {
	u.shown = map[string]bool{}
	for kind, method := range map[string]string{auth.KindTool: "tools/list", auth.KindPrompt: "prompts/list",
		auth.KindResource: "resources/list", auth.KindTemplate: "resources/templates/list"} {
		var got, want []string
		for params, more := "", true; more; {
			var page struct{ Result map[string]json.RawMessage }
			body := u.ask(method, "", params).body
			require.NoError(u, json.Unmarshal([]byte(body), &page), body)
			var next string
			_ = json.Unmarshal(page.Result["nextCursor"], &next)
			var items []struct{ Name, URI, URITemplate string }
			for _, member := range []string{"tools", "prompts", "resources", "resourceTemplates"} {
				_ = json.Unmarshal(page.Result[member], &items)
			}
			for _, it := range items {
				got = append(got, cmp.Or(it.URI, it.URITemplate, it.Name))
			}
			if more = next != ""; more {
				require.Len(u, items, u.w.pageSize)
			}
			params = fmt.Sprintf(`"cursor":%q`, next)
		}
		for _, it := range u.w.items {
			if it.kind == kind && u.w.judge(u.ruledCaller, it, "", "", true).effect != auth.Deny {
				want = append(want, it.key)
			}
		}
		require.Equal(u, want, got, "%s for %+v", method, u.ruledCaller)
		for _, key := range got {
			u.shown[kind+" "+key] = true
		}
	}
}

// checkItems uses all tools and prompts with several arguments, and completes all that can be completed.
func (u *user) checkItems() {
	for _, it := range u.w.items {
		listed := u.w.judge(u.ruledCaller, it, "", "", true)
		used := false
		for _, arguments := range []string{"", "[]", `{"v":"1"}`, `{"v":"2"}`, `{"v":"3"}`, `{"v":"4"}`} {
			params, runs := fmt.Sprintf(`"name":%q`, it.key), it
			if arguments != "" {
				params = call(it.key, arguments)
			}
			if arguments == "[]" { // not valid
				runs = nil
			}
			switch v := u.w.judge(u.ruledCaller, it, "", arguments, false); it.kind {
			case auth.KindTool:
				used = u.check(v, runs, it.key, "tools/call", params) || used
			case auth.KindPrompt:
				used = u.check(v, runs, it.key, "prompts/get", params) || used
			}
		}
		if it.kind == auth.KindTool || it.kind == auth.KindPrompt {
			require.Equal(u, u.shown[it.kind+" "+it.key], used, "%+v is shown to %+v, and found", it, u.ruledCaller)
		}
		switch it.kind {
		case auth.KindPrompt:
			u.check(listed, it, it.key, "completion/complete", completion(promptRef(it.key), argument("v", "")))
		case auth.KindResource:
			u.check(listed, nil, it.key, "completion/complete", completion(resourceRef(it.key), argument("v", "")))
		case auth.KindTemplate:
			u.check(listed, it, it.key, "completion/complete", completion(resourceRef(it.key), argument(it.key[len(it.key)-2:len(it.key)-1], "")))
		}
	}
}

// checkURIs reads all URIs, and subscribes to them.
func (u *user) checkURIs() {
	found := map[string]bool{}
	for _, of := range u.w.uris() {
		by, v, hidden := u.w.judgeURI(u.ruledCaller, of)
		if hidden && v.effect == auth.Allow {
			u.seen["second choice"]++
		}
		found[of] = u.check(v, by, of, "resources/read", uri(of))
		if !u.modern {
			u.check(v, nil, of, "resources/unsubscribe", uri(of))
			u.check(v, nil, of, "resources/subscribe", uri(of))
		} else if v.effect == auth.NeedScopes { // others leave a stream open; see newListener
			u.check(v, nil, of, "subscriptions/listen", fmt.Sprintf(`"notifications":{"resourceSubscriptions":[%q]}`, of))
		}
	}
	for _, it := range u.w.items {
		usable := found[it.key]
		for _, value := range values {
			usable = usable || it.kind == auth.KindTemplate && found[expand(it.key, value)]
		}
		if u.shown[it.kind+" "+it.key] && it.kind != auth.KindTool && it.kind != auth.KindPrompt {
			require.True(u, usable, "%+v is shown to %+v", it, u.ruledCaller)
		}
	}
}

// unknown returns the name of nothing that is as long as a key.
func unknown(key string) string { return "z" + key[1:] }

// check sends a request for something, and compares the answer with the verdict. runs is the item whose
// code may run. It returns whether the request has found something.
func (u *user) check(v verdict, runs *ruledItem, key, method, params string) (found bool) {
	u.Helper()
	u.seen[method+" "+v.effect.String()]++
	inHeader := method == "tools/call" || method == "prompts/get" || method == "resources/read"
	ask := func(key, params string) outcome {
		if !inHeader {
			key = ""
		}
		return u.ask(method, key, params)
	}
	u.w.ran = nil
	got := ask(key, params)
	what := fmt.Sprintf("%s %s, %+v for %+v, modern %v: %s", method, params, v, u.ruledCaller, u.modern, got.body)
	var ran []string
	if v.effect == auth.Allow && runs != nil {
		ran = []string{runs.kind + " " + runs.key}
		require.True(u, u.shown[ran[0]], what)
	}
	require.Equal(u, ran, u.w.ran, what)
	switch v.effect {
	case auth.Deny:
		never := ask(unknown(key), strings.ReplaceAll(params, key, unknown(key)))
		never.body = strings.ReplaceAll(never.body, unknown(key), key)
		require.Equal(u, never, got, what)
	case auth.NeedScopes:
		u.checkChallenge(v, got, what)
	default:
		require.NotRegexp(u, "there is no (tool|prompt|resource|such task)|this needs the scopes", got.body, what)
	}
	return v.effect != auth.Deny
}

// checkChallenge checks that an answer demands all scopes, and no others.
func (u *user) checkChallenge(v verdict, got outcome, what string) {
	u.Helper()
	reason, status := "insufficient_scope", 403
	if u.principal == nil {
		reason, status = "unauthenticated", 401
	}
	require.Contains(u, got.body, `"reason":"`+reason+`"`, what)
	if u.pipe == nil {
		require.Equal(u, status, got.status, what)
	}
	scopes := regexp.MustCompile(`this needs the scopes ([^"]*)"`).FindStringSubmatch(got.body)
	require.NotNil(u, scopes, what)
	require.ElementsMatch(u, v.scopes, strings.Fields(scopes[1]), what)
}
