package server_test

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/transport"
)

const watching = `{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}`

// subscribe adds what can be subscribed to.
func (s *stage) subscribe() {
	server.AddStaticResource(s.srv, server.Resource{URI: "test://a", Name: "a"}, "content")
}

// subscriptionScenes are the subscriptions, of both eras.
func subscriptionScenes() []scene {
	return []scene{{
		title: "subscription", about: "Acknowledged, told of a change, and ended by the client after an hour.",
		play: func(s *stage) {
			s.subscribe()
			p := s.pipe()
			require.Contains(s.t, p.ask(listenTo(1, watching)), "acknowledged")
			later()
			s.srv.ResourceUpdated("test://a")
			require.Contains(s.t, p.recv(), "updated")
			time.Sleep(time.Hour)
			p.send(cancelled(1))
		},
	}, {
		title: "subscription, client_disconnect", about: "Over HTTP the client ends it by hanging up.",
		play: func(s *stage) {
			s.subscribe()
			a := s.web().start("POST", listenTo(1, watching), modernHeaders("subscriptions/listen", "")...)
			time.Sleep(time.Hour)
			a.drop()
		},
	}, {
		title: "subscription, transport_close", about: "On a pipe the client ends its input, and still reads: an answer.",
		play: func(s *stage) {
			s.subscribe()
			in := s.halved()
			_, err := in.Write([]byte(listenTo(1, watching) + "\n"))
			require.NoError(s.t, err)
			time.Sleep(time.Hour)
			in.Close()
		},
	}, {
		title: "subscription, transport_error", about: "A write fails, when there is something to tell.",
		play: func(s *stage) {
			s.subscribe()
			var broken *brokenPipe
			p := s.mute(func(c net.Conn) transport.Pipe { broken = &brokenPipe{Conn: c}; return broken })
			p.send(listenTo(1, watching))
			_, err := p.in.ReadString('\n')
			require.NoError(s.t, err)
			time.Sleep(time.Hour)
			broken.fail(syscall.EPIPE)
			s.srv.ResourceUpdated("test://a")
			synctest.Wait()
		},
	}, {
		title: "subscription, server_shutdown", about: "The drain ends it politely: an answer.",
		play: func(s *stage) {
			s.subscribe()
			p := s.pipe()
			p.ask(listenTo(1, watching))
			time.Sleep(time.Hour)
			defer s.drain()()
			require.Contains(s.t, p.recv()+p.recv(), "server_shutdown")
		},
	}, {
		title: "subscription, server_shutdown over HTTP", about: "The same over HTTP.",
		play: func(s *stage) {
			s.subscribe()
			a := s.web().start("POST", listenTo(1, watching), modernHeaders("subscriptions/listen", "")...)
			time.Sleep(time.Hour)
			s.drain()()
			require.Contains(s.t, a.wait().body, `"resultType":"complete"`)
		},
	}, {
		title: "subscription, operator", about: "An operator ends it: an error.",
		play: func(s *stage) {
			s.subscribe()
			a := s.web().start("POST", listenTo(1, watching), modernHeaders("subscriptions/listen", "")...)
			time.Sleep(time.Hour)
			_, err := s.srv.EndRequest(fmt.Sprint("r", s.srv.Core().Snapshot().Subscriptions[0].Request.Key()))
			require.NoError(s.t, err)
			require.Contains(s.t, a.wait().body, "operator")
		},
	}, {
		title: "subscription, token_expired", about: "Over HTTP it ends with its token, politely: an answer.",
		options: []server.Option{server.WithAuthenticator(auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) {
			return &auth.Principal{Subject: "ann", Expires: time.Now().Add(time.Hour)}, nil
		}))},
		play: func(s *stage) {
			s.subscribe()
			w := s.web()
			require.Contains(s.t, w.do("POST", listenTo(1, watching), modernHeaders("subscriptions/listen", "")...).body, `"resultType":"complete"`)
		},
	}, {
		title: "subscription refused", about: "A filter that is none (-32602): it never stands.",
		play: func(s *stage) {
			s.subscribe()
			require.Contains(s.t, s.pipe().ask(listenTo(1, `{"toolsListChanged":7}`)), "-32602")
		},
	}, {
		title: "subscription too many", about: "max_subscriptions.", limits: server.Limits{MaxSubscriptions: 1},
		play: func(s *stage) {
			s.subscribe()
			p := s.pipe()
			p.ask(listenTo(1, watching))
			require.Contains(s.t, p.ask(listenTo(2, watching)), "max_subscriptions")
			p.send(cancelled(1))
		},
	}, {
		title: "subscription, legacy", about: "resources/subscribe is a request like others, and the session is told.",
		play: func(s *stage) {
			s.subscribe()
			p := s.old()
			p.ask(withURI(1, "resources/subscribe", "test://a"))
			later()
			s.srv.ResourceUpdated("test://a")
			require.Contains(s.t, p.recv(), "updated")
			p.ask(withURI(2, "resources/unsubscribe", "test://a"))
		},
	}, {
		title: "update for nobody", about: "An update that nobody has subscribed to is counted, whoever listens to other things.",
		play: func(s *stage) {
			s.subscribe()
			s.srv.ResourceUpdated("test://a")
			p := s.pipe()
			p.ask(listenTo(1, watching))
			s.srv.ResourceUpdated("test://b")
			synctest.Wait()
			p.send(cancelled(1))
		},
	}, {
		title: "subscription, legacy, without a stream", about: "What a session has no stream for is dropped.",
		options: []server.Option{server.WithoutEventStore()},
		play: func(s *stage) {
			s.subscribe()
			w := s.web()
			w.do("POST", withURI(1, "resources/subscribe", "test://a"), w.session())
			s.srv.ResourceUpdated("test://a")
			synctest.Wait()
		},
	}}
}

// extensionScenes are methods of one's own, and batches.
func extensionScenes() []scene {
	const method, told = "com.example/thing/start", "notifications/com.example/thing"
	extend := func(s *stage) {
		server.AddExtension(s.srv, server.Extension{ID: thing})
		server.AddMethod(s.srv, server.Method{Name: method, Extension: thing},
			func(_ context.Context, c *server.Call, _ none) (none, error) { return none{}, c.Notify(told, nil) })
		server.AddNotification(s.srv, told, thing, func(context.Context, *server.Notice, none) {})
	}
	declared := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{` + declares(thing) + `}}`
	return []scene{{
		title: "own method and notification", about: "Their names are those of the program: in spans and labels.",
		play: func(s *stage) {
			extend(s)
			p := s.pipe()
			require.Contains(s.t, p.ask(withCaps(1, method, declares(thing), "")), told)
			p.recv()
			p.send(notification(told, declared))
		},
	}, {
		title: "own method, not declared", about: "A client that has not declared the extension (-32021).",
		play: func(s *stage) {
			extend(s)
			require.Contains(s.t, s.pipe().ask(modern(1, method, "")), "-32021")
		},
	}, {
		title: "batch, in memory", about: "Each member is a request, or a notification, of its own.",
		play: func(s *stage) {
			p := s.pipe()
			p.initialize("2025-03-26")
			s.forget()
			require.Contains(s.t, p.ask("["+legacy(1, "tools/call", call("echo", `{}`))+","+
				legacy(2, "no/such", "")+","+notice("notifications/roots/list_changed", "")+"]"), "-32601")
		},
	}, {
		title: "batch, over HTTP", about: "The same in one exchange, of which one member has an id that is in flight.",
		play: func(s *stage) {
			w := s.web()
			a := w.do("POST", legacy("init", "initialize",
				`"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"old","version":"9"}`))
			sid := "Mcp-Session-Id: " + a.header.Get("Mcp-Session-Id")
			w.do("POST", notice("notifications/initialized", ""), sid)
			s.forget()
			one := legacy(1, "tools/call", call("echo", `{}`))
			require.Contains(s.t, w.do("POST", "["+one+","+one+"]", sid).body, "duplicate_id")
		},
	}, {
		title: "batch of another revision", about: "Only clients of 2025-03-26 may send one: the frame is ignored.",
		play: func(s *stage) { require.Contains(s.t, s.pipe().ask("["+echo(1)+"]"), "-32600") },
	}}
}
