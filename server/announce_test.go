package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/server"
)

// A change of a hidden item is announced to those who may see the item, in both eras.
func TestHiddenChangesAreNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, byContext, deny(func(p *auth.Principal, op *auth.Operation) bool {
			return strings.Contains(op.Name+op.URI, "secret") && p.String() != "admin"
		}))
		for _, name := range []string{"open", "secret"} {
			server.AddTool(srv, server.Tool{Name: name}, text(""))
			addPrompt(srv, name)
			server.AddStaticResource(srv, server.Resource{URI: "x:dir/" + name, Name: name}, "")
		}
		server.AddStaticResource(srv, server.Resource{URI: "x:dir", Name: "dir"}, "")
		const all = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:dir"]}`
		var pipes []*rawPipe
		for _, who := range []string{"ann", "admin"} {
			p, old := dialContext(t, as(who), srv), dialContext(t, as(who), srv)
			require.JSONEq(t, acknowledged(1, all), p.ask(listenTo(1, all)))
			old.initialize("2025-06-18")
			require.Contains(t, old.ask(withURI(2, "resources/subscribe", "x:dir")), `"result":{}`)
			pipes = append(pipes, p, old)
		}
		for _, change := range []struct {
			method string
			make   func(name string)
		}{
			{toolsChanged, func(name string) { server.AddTool(srv, server.Tool{Name: name, Title: "new"}, text("")) }},
			{toolsChanged, func(name string) { srv.RemoveTools(name) }},
			{toolsChanged, func(name string) { server.AddTool(srv, server.Tool{Name: name}, text("")) }},
			{promptsChanged, func(name string) { srv.RemovePrompts(name) }},
			{"notifications/resources/updated", func(name string) { srv.ResourceUpdated("x:dir/" + name) }},
			{resourcesChanged, func(name string) { srv.RemoveResources("x:dir/" + name) }},
		} {
			for i := range 1100 { // more than the hub would let wait
				server.AddTool(srv, server.Tool{Name: fmt.Sprint("secret-", i)}, text(""))
				srv.RemoveTools(fmt.Sprint("secret-", i))
				if i == 0 {
					change.make("secret")
				}
			}
			for _, p := range pipes[:2] {
				p.silent()
			}
			for _, p := range pipes[2:] {
				seen := false
				for synctest.Wait(); len(p.lines) > 0; synctest.Wait() {
					seen = strings.Contains(p.recv(), change.method) || seen
				}
				require.True(t, seen, change.method)
			}
			change.make("open")
			for _, p := range pipes {
				require.Contains(t, p.recv(), change.method)
			}
		}
	})
}

// Of a part of a resource that the caller may not see it learns nothing, also if it has subscribed to what
// that resource is a part of.
func TestPartsOfHiddenResourcesAreNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, byContext, deny(func(p *auth.Principal, op *auth.Operation) bool {
			return strings.Contains(op.URI, "secret") && p.String() != "admin"
		}))
		for _, uri := range []string{"x:dir", "x:dir/open", "x:dir/secret"} {
			server.AddStaticResource(srv, server.Resource{URI: uri, Name: uri}, "")
		}
		const whole = `{"resourceSubscriptions":["x:dir"]}`
		ann, admin, old := dialContext(t, as("ann"), srv), dialContext(t, as("admin"), srv), dialContext(t, as("ann"), srv)
		require.JSONEq(t, acknowledged(1, whole), ann.ask(listenTo(1, whole)))
		require.JSONEq(t, acknowledged(1, whole), admin.ask(listenTo(1, whole)))
		old.initialize("2025-06-18")
		require.Contains(t, old.ask(withURI(2, "resources/subscribe", "x:dir")), `"result":{}`)
		for _, part := range []string{"x:dir/secret/1", "x:dir/secret?page=2", "x:dir/secret/a/b#c"} {
			srv.ResourceUpdated(part)
			require.Contains(t, admin.recv(), part)
			ann.silent()
			old.silent()
		}
		srv.ResourceUpdated("x:dir/open/1")
		for _, p := range []*rawPipe{ann, admin, old} {
			require.Contains(t, p.recv(), "x:dir/open/1")
		}
	})
}

// A replacement is announced to those who could see the item before, or can see it now.
func TestReplacementsAreAnnouncedToBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, byContext, deny(func(p *auth.Principal, op *auth.Operation) bool {
			return len(op.Scopes) > 0 && op.Scopes[0] != p.String()
		}))
		ann, bob, eve := dialContext(t, as("ann"), srv), dialContext(t, as("bob"), srv), dialContext(t, as("eve"), srv)
		for _, p := range []*rawPipe{ann, bob, eve} {
			p.ask(listenTo(1, `{"toolsListChanged":true}`))
		}
		server.AddTool(srv, server.Tool{Name: "a", Scopes: []string{"ann"}}, text(""))
		require.Contains(t, ann.recv(), toolsChanged)
		server.AddTool(srv, server.Tool{Name: "a", Title: "b", Scopes: []string{"bob"}}, text(""))
		require.Contains(t, ann.recv(), toolsChanged)
		require.Contains(t, bob.recv(), toolsChanged)
		eve.silent()
		srv.PoliciesChanged()
		require.Contains(t, eve.recv(), toolsChanged, "all lists may have changed")
	})
}

// Tasks of a tool that its caller may not see any more do not exist, and are not announced.
func TestTasksOfHiddenTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hidden atomic.Bool
		srv := newTaskServer(t, byContext, deny(func(_ *auth.Principal, op *auth.Operation) bool { return op.Name == "work" && hidden.Load() }))
		jobs := addJob(srv, "work", false, server.TaskOptions{})
		p := dialContext(t, as("ann"), srv)
		ask := func(method, params string) string { return p.ask(withCaps(1, method, withTasks, params)) }
		id := taskID(t, ask("tools/call", call("work", `{}`)))
		j := <-jobs
		require.Contains(t, ask("tasks/get", `"taskId":"`+id+`"`), `"status":"working"`)
		listener := dialContext(t, as("ann"), srv)
		require.Contains(t, listener.ask(withCaps(1, "subscriptions/listen", withTasks, `"notifications":{"taskIds":["`+id+`"]}`)), id)

		hidden.Store(true)
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			never := ask(method, `"taskId":"nobodys","inputResponses":{}`)
			require.Contains(t, never, "there is no such task")
			require.Equal(t, never, ask(method, `"taskId":"`+id+`","inputResponses":{}`))
		}
		require.NotContains(t, dialContext(t, as("ann"), srv).ask(
			withCaps(1, "subscriptions/listen", withTasks, `"notifications":{"taskIds":["`+id+`"]}`)), id)
		j.finish("secret")
		listener.silent()

		hidden.Store(false)
		require.Contains(t, ask("tasks/get", `"taskId":"`+id+`"`), `"status":"completed"`)
	})
}

// A task whose tool needs scopes that the caller has lost is challenged.
func TestTasksNeedTheScopesOfTheirTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &trail{}
		log, err := audit.New(audit.Config{Sinks: []audit.Sink{sink}})
		require.NoError(t, err)
		srv := newTaskServer(t, server.WithAudit(log), server.WithAuthenticator(byScopes{}), server.WithPolicy(auth.PolicyFunc(
			func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
				if p.HasScope("do") {
					return auth.Decision{Effect: auth.Allow}
				}
				return auth.Decision{Effect: auth.NeedScopes, Scopes: []string{"do"}}
			})))
		jobs := addJob(srv, "work", false, server.TaskOptions{})
		rich, poor := dialContext(t, as("do"), srv), dialContext(t, as("other"), srv)
		id := taskID(t, rich.ask(withCaps(1, "tools/call", withTasks, call("work", `{}`))))
		j := <-jobs
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			require.Contains(t, poor.ask(withCaps(1, method, withTasks, `"taskId":"`+id+`"`)), `"message":"this needs the scopes do"`)
		}
		require.Contains(t, rich.ask(withCaps(1, "tasks/get", withTasks, `"taskId":"`+id+`"`)), `"status":"working"`)
		j.finish("")
		counted := map[string]uint64{}
		for _, d := range srv.Core().Snapshot().Counters.Decisions {
			counted[d.Effect] += d.Count
		}
		require.Equal(t, map[string]uint64{"allow": 2, "need_scopes": 2}, counted)
		synctest.Wait()
		require.NoError(t, log.Close(t.Context()))
		refused := 0
		for _, line := range sink.take() {
			if line["decision"] == "need_scopes" {
				require.Equal(t, []any{"scope", "refused"}, []any{line["stage"], line["outcome"]})
				refused++
			}
		}
		require.Equal(t, 2, refused)
	})
}

// A subscription to tasks of several tools is challenged for the scopes of all of them at once.
func TestSubscriptionToTasksNeedsAllScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t, server.WithAuthenticator(byScopes{}), server.WithPolicy(auth.PolicyFunc(
			func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
				if op.Kind != auth.KindTool || p.HasScope(op.Name) {
					return auth.Decision{Effect: auth.Allow}
				}
				return auth.Decision{Effect: auth.NeedScopes, Scopes: []string{op.Name}}
			})))
		rich, poor := dialContext(t, as("one two"), srv), dialContext(t, as("one"), srv)
		var ids []string
		for _, tool := range []string{"one", "two"} {
			jobs := addJob(srv, tool, false, server.TaskOptions{})
			ids = append(ids, taskID(t, rich.ask(withCaps(1, "tools/call", withTasks, call(tool, `{}`)))))
			defer (<-jobs).finish("")
		}
		listen := withCaps(2, "subscriptions/listen", withTasks, `"notifications":{"taskIds":["`+strings.Join(ids, `","`)+`"]}`)
		require.Contains(t, poor.ask(listen), `"message":"this needs the scopes two"`)
		none := dialContext(t, as(""), srv)
		require.Contains(t, none.ask(listen), `"message":"this needs the scopes one two"`)
		answer := rich.ask(listen)
		require.Contains(t, answer, ids[0])
		require.Contains(t, answer, ids[1])
	})
}

// taskID returns the id of the task in an answer.
func taskID(t *testing.T, answer string) string {
	t.Helper()
	found := regexp.MustCompile(`"taskId":"([A-Z2-7]{26})"`).FindStringSubmatch(answer)
	require.NotNil(t, found, answer)
	return found[1]
}

// A function of the program that panics hides the change, and the other subscribers are told.
func TestPanicOfScopesForHidesTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		srv := newServer(t, server.WithLogger(slog.New(logs)), byContext, deny(func(*auth.Principal, *auth.Operation) bool { return false }))
		server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:{+path}", Name: "x",
			ScopesFor: func(uri string) []string {
				if strings.HasSuffix(uri, "/b") {
					panic("no scopes")
				}
				return nil
			}}, echoVars)
		addPrompt(srv, "p")
		p := dialContext(t, as("ann"), srv)
		const all = `{"promptsListChanged":true,"resourceSubscriptions":["x:a"]}`
		require.JSONEq(t, acknowledged(1, all), p.ask(listenTo(1, all)))
		srv.ResourceUpdated("x:a/b")
		p.silent()
		srv.RemovePrompts("p")
		require.Contains(t, p.recv(), promptsChanged)
		require.Contains(t, logs.find("policy.decided")[0].attrs["error"], "no scopes")
	})
}

// A policy that waits for some callers delays what others are told of one change by notify_timeout for each 256 of them.
func TestSlowPolicyDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, byContext, server.WithPolicy(auth.PolicyFunc(
			func(ctx context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
				if p.String() == "slow" && op.Kind == auth.KindTool {
					<-ctx.Done()
				}
				return auth.Decision{Effect: auth.Allow}
			})))
		server.AddTool(srv, server.Tool{Name: "first"}, text(""))
		const tools = `{"toolsListChanged":true}`
		for range 300 {
			p := dialContext(t, as("slow"), srv)
			require.JSONEq(t, acknowledged(1, tools), p.ask(listenTo(1, tools)))
		}
		p := dialContext(t, as("ann"), srv)
		require.JSONEq(t, acknowledged(1, tools), p.ask(listenTo(1, tools)))
		for i := range 3 {
			began := time.Now()
			server.AddTool(srv, server.Tool{Name: fmt.Sprint(i)}, text(""))
			require.Contains(t, p.recv(), toolsChanged)
			require.LessOrEqual(t, time.Since(began), 2*srv.Core().Limits().NotifyTimeout)
		}
		time.Sleep(2 * srv.Core().Limits().NotifyTimeout) // for the decisions about the last change
	})
}
