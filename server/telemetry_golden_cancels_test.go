package server_test

import (
	"context"
	"net"
	"syscall"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/transport"
)

var (
	waiting    = modern(1, "tools/call", call("wait", `{}`))
	oldWaiting = legacy(1, "tools/call", call("wait", `{}`))
)

// deaf adds a tool that ignores its context until it is let go.
func (s *stage) deaf(tool server.Tool) (release chan struct{}) {
	release = make(chan struct{})
	server.AddTool(s.srv, tool,
		func(context.Context, *server.Call, none) (string, error) { <-release; return "too late", nil })
	return release
}

// cancelScenes are the causes for which the context of a handler is cancelled.
func cancelScenes() []scene {
	return []scene{{
		title: "client_cancel", about: "notifications/cancelled: no answer, and no error of the service.",
		play: func(s *stage) {
			s.hold("wait")
			p := s.pipe()
			p.send(waiting, cancelled(1))
			p.silent()
		},
	}, {
		title: "client_cancel, queued", about: "The same for a request whose handler was never called.",
		limits: server.Limits{MaxInFlight: 1},
		play: func(s *stage) {
			release := s.hold("wait")
			p := s.pipe()
			p.send(waiting, echo(2), cancelled(2))
			close(release)
			require.Contains(s.t, p.recv(), "released")
		},
	}, {
		title: "client_cancel of nothing", about: "A cancel of what is not there is ignored, and counted.",
		play: func(s *stage) { s.pipe().send(cancelled(7)) },
	}, {
		title: "client_cancel over modern HTTP", about: "An id from another exchange is acknowledged and ignored.",
		play: func(s *stage) {
			release := s.hold("wait")
			w := s.web()
			a := w.start("POST", waiting, modernHeaders("tools/call", "wait")...)
			require.Equal(s.t, 202, w.do("POST", cancelled(1), modernHeaders("notifications/cancelled", "")...).status)
			close(release)
			require.Contains(s.t, a.wait().body, "released")
		},
	}, {
		title: "client_disconnect", about: "A modern client hangs up: that cancels its request.",
		play: func(s *stage) {
			s.hold("wait")
			a := s.web().start("POST", waiting, modernHeaders("tools/call", "wait")...)
			slowly()
			a.drop()
		},
	}, {
		title: "client_disconnect, queued", about: "The same before the handler was called.", limits: server.Limits{MaxInFlightTotal: 1},
		play: func(s *stage) {
			release := s.hold("wait")
			w := s.web()
			a := w.start("POST", waiting, modernHeaders("tools/call", "wait")...)
			b := w.start("POST", echo(1), modernHeaders("tools/call", "echo")...)
			slowly()
			b.drop()
			close(release)
			require.Contains(s.t, a.wait().body, "released")
		},
	}, {
		title: "transport_close", about: "The client ends its input, and the grace of 1 s is over.",
		play: func(s *stage) {
			s.hold("wait")
			in := s.halved()
			_, err := in.Write([]byte(waiting + "\n"))
			require.NoError(s.t, err)
			later()
			in.Close()
			time.Sleep(2 * time.Second)
		},
	}, {
		title: "transport_close, in time", about: "The client ends its input, and the handler answers within the grace.",
		play: func(s *stage) {
			release := s.hold("wait")
			in := s.halved()
			_, err := in.Write([]byte(waiting + "\n"))
			require.NoError(s.t, err)
			later()
			in.Close()
			later()
			close(release)
		},
	}, {
		title: "transport_error", about: "Reading fails: the connection was reset.",
		play: func(s *stage) {
			s.hold("wait")
			p := s.mute(func(c net.Conn) transport.Pipe { return &brokenPipe{Conn: c, read: syscall.ECONNRESET} })
			p.send(waiting)
			later()
			p.Close()
		},
	}, {
		title: "session_delete", about: "The client deletes its session: its own doing.",
		play: func(s *stage) {
			s.hold("wait")
			w := s.web()
			sid := w.session()
			a := w.start("POST", oldWaiting, sid)
			require.Equal(s.t, 204, w.do("DELETE", "", sid).status)
			require.Equal(s.t, 404, a.wait().status)
		},
	}, {
		title: "session_idle", about: "A session is idle for 30 min. It has no request: only the session ends.",
		play: func(s *stage) {
			s.web().session()
			time.Sleep(time.Hour)
		},
	}, {
		title: "session_evicted", about: "A new session takes the place of an idle one. It has no request.",
		limits: server.Limits{MaxSessions: 1},
		play: func(s *stage) {
			w := s.web()
			w.session()
			w.do("POST", handshake)
		},
	}, {
		title: "operator", about: "An operator ends the request: its caller has an error at once.",
		play: func(s *stage) {
			s.hold("wait")
			a := s.web().start("POST", waiting, modernHeaders("tools/call", "wait")...)
			slowly()
			_, err := s.srv.EndRequest(requestKey(s.srv))
			require.NoError(s.t, err)
			require.Contains(s.t, a.wait().body, `"reason":"operator"`)
		},
	}, {
		title: "operator, the session", about: "An operator ends the session: the handler may answer, and what is left gets an error.",
		play: func(s *stage) {
			s.hold("wait")
			w := s.web()
			sid := w.session()
			a := w.start("POST", oldWaiting, sid)
			slowly()
			_, err := s.srv.EndSession(sessionKey(s.srv))
			require.NoError(s.t, err)
			require.Contains(s.t, a.wait().body, "operator")
			require.Equal(s.t, 404, w.do("POST", oldWaiting, sid).status)
		},
	}, {
		title: "server_shutdown", about: "The patience of the drain is over: our doing, whatever the handler returns.",
		play: func(s *stage) {
			s.hold("wait")
			p := s.pipe()
			p.send(waiting)
			s.shutdown(3 * time.Second)
			require.Contains(s.t, p.recv(), "server_shutdown")
		},
	}, {
		title: "server_shutdown, queued", about: "What waits for a slot when the drain begins is refused at once.",
		limits: server.Limits{MaxInFlight: 1},
		play: func(s *stage) {
			release := s.hold("wait")
			p := s.pipe()
			p.send(waiting, echo(2))
			defer s.drain()()
			require.Contains(s.t, p.recv(), `"phase":"queued"`)
			close(release)
			require.Contains(s.t, p.recv(), "released")
		},
	}, {
		title: "server_shutdown, of the connection", about: "The context of ServePipe ends.",
		play: func(s *stage) {
			s.hold("wait")
			ctx, cancel := context.WithCancel(context.Background())
			p := line{dialContext(s.t, ctx, s.srv), s}
			p.send(waiting)
			cancel()
			require.Contains(s.t, p.recv(), "server_shutdown")
			_ = p.hangUp()
		},
	}, {
		title: "deadline", about: "The request takes longer than request_timeout: the error goes out at the deadline.",
		play: func(s *stage) {
			s.hold("wait")
			p := s.pipe()
			p.send(waiting)
			require.Contains(s.t, p.recv(), "deadline")
		},
	}, {
		title: "deadline of the route", about: "A deadline that the tool has set, and a handler that returns 1 s later.",
		play: func(s *stage) {
			release := s.deaf(server.Tool{Name: "wait", Deadline: 2 * time.Second})
			p := s.pipe()
			p.send(waiting)
			require.Contains(s.t, p.recv(), "deadline")
			time.Sleep(time.Second)
			close(release)
			synctest.Wait()
		},
	}, {
		title: "deadline, queued", about: "The time in the queue counts.", limits: server.Limits{MaxInFlight: 1},
		play: func(s *stage) {
			release := s.deaf(server.Tool{Name: "wait", Deadline: 10 * time.Minute})
			p := s.pipe()
			p.send(waiting, echo(2))
			require.Contains(s.t, p.recv(), `"phase":"queued"`)
			close(release)
			require.Contains(s.t, p.recv(), "too late")
		},
	}, {
		title: "cancelled twice", about: "The first cause stays: the deadline comes after the cancel, and changes nothing.",
		play: func(s *stage) {
			release := s.deaf(server.Tool{Name: "wait", Deadline: 2 * time.Second})
			p := s.pipe()
			p.send(waiting, cancelled(1))
			time.Sleep(3 * time.Second)
			p.send(cancelled(1))
			close(release)
			p.silent()
		},
	}, {
		title: "abandoned", about: "A cancelled handler does not return for 10 s. Its span ends then, and its return is one of its own.",
		play: func(s *stage) {
			release := s.deaf(server.Tool{Name: "wait"})
			p := s.pipe()
			p.send(waiting, cancelled(1))
			time.Sleep(12 * time.Second)
			close(release)
			p.silent()
		},
	}, {
		title: "abandoned by the drain", about: "A handler that does not return in the shutdown either.",
		play: func(s *stage) {
			release := s.deaf(server.Tool{Name: "wait"})
			p := s.pipe()
			p.send(waiting)
			s.shutdown(3 * time.Second)
			time.Sleep(time.Second)
			close(release)
			synctest.Wait()
		},
	}, {
		title: "panic after a cancel", about: "It is counted and on the span, and still nobody is answered.",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
				<-ctx.Done()
				time.Sleep(time.Millisecond) // what is decided meanwhile comes first
				panic("at the worst time")
			})
			p := s.pipe()
			p.send(waiting, cancelled(1))
			p.silent()
		},
	}}
}
