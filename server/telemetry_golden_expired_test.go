package server_test

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// leave has clients begin calls and hang up, so that an answer of each is stored.
func (w *webClient) leave(release chan struct{}, sessions ...string) (answers []*webAnswer) {
	for _, sid := range sessions {
		a := w.start("POST", beginning, sid)
		a.drop()
		release <- struct{}{}
		later()
		answers = append(answers, a)
	}
	return answers
}

// expiredScenes are the stored answers that nobody can fetch any more.
func expiredScenes() []scene {
	events := &eventLog{}
	return []scene{{
		title: "max_events", about: "Later events of the session push an answer out.",
		limits: server.Limits{MaxEvents: 3},
		play: func(s *stage) {
			w, release := s.web(), s.begin()
			sid := w.session()
			w.leave(release, sid, sid)
		},
	}, {
		title: "max_event_bytes", about: "Later events of the session need the memory.",
		limits: server.Limits{MaxEventBytes: 700},
		play: func(s *stage) {
			w, release := s.web(), s.begin()
			sid := w.session()
			w.leave(release, sid, sid)
		},
	}, {
		title: "max_event_bytes_total", about: "Events of another session need the memory.",
		limits: server.Limits{MaxEventBytesTotal: 700},
		play: func(s *stage) {
			w, release := s.web(), s.begin()
			w.leave(release, w.session(), w.session())
		},
	}, {
		title: "session idle", about: "The client leaves, and its session ends by its time-out.",
		limits: server.Limits{SessionIdle: time.Minute},
		play: func(s *stage) {
			w, release := s.web(), s.begin()
			w.leave(release, w.session())
			time.Sleep(2 * time.Minute)
		},
	}, {
		title: "session evicted", about: "A new session takes the place of the one with the answer.",
		limits: server.Limits{MaxSessions: 1},
		play: func(s *stage) {
			w, release := s.web(), s.begin()
			w.leave(release, w.session())
			time.Sleep(time.Minute)
			w.do("POST", handshake)
		},
	}, {
		title: "lost by the event store", about: "The program's store does not have the answer any more when the client comes back.",
		options: []server.Option{server.WithEventStore(events)},
		play: func(s *stage) {
			w, release := s.web(), s.begin()
			sid := w.session()
			last := lastID(w.leave(release, sid)[0].body)
			require.NoError(s.t, events.with(func() { events.events = nil }))
			require.Equal(s.t, 400, w.do("GET", "", sid, "Last-Event-ID: "+last).status)
		},
	}, {
		title: "left in the store", about: "The replica's object of the session ends. Others may replay the answer.",
		limits:  server.Limits{SessionIdle: time.Minute},
		options: []server.Option{server.WithStateKeys(stateKey(1)), server.WithStore(new(store.Memory).Store())},
		play: func(s *stage) {
			w, release := s.web(), s.begin()
			w.leave(release, w.session())
			time.Sleep(2 * time.Minute)
		},
	}}
}

// listScenes change what is registered.
func listScenes() []scene {
	prompt := func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }
	template := func(context.Context, *server.Call, string, map[string]string) (string, error) { return "", nil }
	return []scene{{
		title: "replaced and removed", about: "A program replaces and removes a tool, a prompt, a resource and a template.",
		play: func(s *stage) {
			for _, description := range []string{"one", "another"} {
				server.AddTool(s.srv, server.Tool{Name: "t", Description: description}, text(""))
				server.AddPrompt(s.srv, server.Prompt{Name: "p", Description: description}, prompt)
				server.AddResourceTemplate(s.srv, server.ResourceTemplate{URITemplate: "test://{x}", Name: "x", Description: description}, template)
				server.AddStaticResource(s.srv, server.Resource{URI: "test://r", Name: "r", Description: description}, "")
			}
			s.srv.RemoveTools("t")
			s.srv.RemovePrompts("p")
			s.srv.RemoveResources("test://r")
			s.srv.RemoveResourceTemplates("test://{x}")
			synctest.Wait()
		},
	}, {
		title: "policies", about: "The policies have changed, and with them what callers see.",
		options: []server.Option{server.WithPolicy(auth.PolicyFunc(func(context.Context, *auth.Principal, *auth.Operation) auth.Decision {
			return auth.Decision{Effect: auth.Allow}
		}))},
		play: func(s *stage) { s.srv.PoliciesChanged() },
	}}
}
