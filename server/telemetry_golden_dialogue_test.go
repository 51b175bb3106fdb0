package server_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// ask adds a tool that asks the client for its roots, within a time of its own.
func (s *stage) ask(deadline time.Duration) {
	server.AddTool(s.srv, server.Tool{Name: "ask", Deadline: deadline},
		func(ctx context.Context, c *server.Call, in struct {
			Seconds int `json:"seconds,omitempty"`
		}) (string, error) {
			if in.Seconds > 0 {
				bounded, cancel := context.WithTimeout(ctx, time.Duration(in.Seconds)*time.Second)
				defer cancel()
				ctx = bounded
			}
			_, err := c.CallClient(ctx, mcp.MethodRootsList, nil)
			return "asked", err
		})
}

var oldAsking = legacy(7, "tools/call", call("ask", `{}`))

// once asks for a round, as a modern client does.
func (p line) once(params string) roundsResult {
	later()
	asked, _ := round(p.t, p.rawPipe, params)
	synctest.Wait()
	return asked
}

// dialogueScenes are what a handler and its client say to each other meanwhile.
func dialogueScenes() []scene {
	return []scene{{
		title: "progress, modern", about: "Progress is no span of its own and no event: it is sent.",
		play: func(s *stage) {
			close(s.begin())
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("begin", `{}`), withToken)), "begun")
		},
	}, {
		title: "progress, legacy", about: "The same over HTTP, where the response becomes an event stream.",
		play: func(s *stage) {
			close(s.begin())
			w := s.web()
			require.Contains(s.t, w.do("POST", beginning, w.session()).body, "begun")
		},
	}, {
		title: "Call.Log", about: "What a handler logs is an event on its span, whether or not the client wants it.",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "talk"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
				return "done", c.LogAs("kitchen", mcp.LogWarning, map[string]int{"degrees": 300})
			})
			p := s.pipe()
			require.Contains(s.t, p.ask(modern(1, "tools/call", call("talk", `{}`),
				`"io.modelcontextprotocol/logLevel":"debug"`)), "degrees")
			p.recv()
			p.ask(modern(2, "tools/call", call("talk", `{}`)))
		},
	}, {
		title: "three rounds, modern", about: "Two questions, so three requests: each links the one before, in traces of their own.",
		play: func(s *stage) {
			addTwo(s.srv)
			p := s.pipe()
			asked := p.once(call("two", `{}`))
			asked = p.once(retry(call("two", `{}`), asked.RequestState, "one", accepted("1")))
			p.once(retry(call("two", `{}`), asked.RequestState, "two", accepted("2")))
		},
	}, {
		title: "three rounds in one trace", about: "A client that sends its own context: the rounds are siblings, and linked all the same.",
		play: func(s *stage) {
			addTwo(s.srv)
			p := s.pipe()
			traced := func(id int, params string) string {
				return strings.Replace(asking(id, "tools/call", params), `"_meta":{`, `"_meta":{`+fromCaller+`,`, 1)
			}
			state := func(answer string) string {
				return regexp.MustCompile(`"requestState":"([^"]+)"`).FindStringSubmatch(answer)[1]
			}
			first := state(p.ask(traced(1, call("two", `{}`))))
			second := state(p.ask(traced(2, retry(call("two", `{}`), first, "one", accepted("1")))))
			require.Contains(s.t, p.ask(traced(3, retry(call("two", `{}`), second, "two", accepted("2")))), "complete")
		},
	}, {
		title: "a round with a bad state", about: "What is no state of ours is the caller's fault, and links nothing.",
		play: func(s *stage) {
			addTwo(s.srv)
			require.Contains(s.t, s.pipe().ask(asking(1, "tools/call", retry(call("two", `{}`), "forged"))), "state_malformed")
		},
	}, {
		title: "three rounds, legacy", about: "The same tool: one request, and two to the client, of kind CLIENT below it.",
		play: func(s *stage) {
			addTwo(s.srv)
			p := s.old()
			for id, answer := range []string{accepted("1"), accepted("2")} {
				if id == 0 {
					p.send(legacy(7, "tools/call", call("two", `{}`)))
				}
				question := p.recv()
				require.Contains(s.t, question, `"traceparent"`)
				p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id+1, answer))
			}
			require.Contains(s.t, p.recv(), "result")
		},
	}, {
		title: "question, legacy, over HTTP", about: "The question on the stream of the response, the answer by another exchange.",
		play: func(s *stage) {
			s.ask(0)
			w := s.web()
			sid := w.session()
			a := w.start("POST", oldAsking, sid)
			w.do("POST", `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, sid)
			require.Contains(s.t, a.wait().body, "asked")
		},
	}, {
		title: "question refused", about: "The client answers with an error: its code on the CLIENT span; the handler makes a tool error of it.",
		play: func(s *stage) {
			s.ask(0)
			p := s.old()
			p.ask(oldAsking)
			require.Contains(s.t, p.ask(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no roots"}}`), `"isError":true`)
			p.ask(oldAsking)
			require.Contains(s.t, p.ask(`{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"the user\nrefuses"}}`), `"isError":true`)
		},
	}, {
		title: "question, time-out", about: "The handler waits for 2 s and no longer, and the client is told. Its answer is late.",
		play: func(s *stage) {
			s.ask(0)
			p := s.old()
			p.ask(legacy(7, "tools/call", call("ask", `{"seconds":2}`)))
			require.Contains(s.t, p.recv(), "notifications/cancelled")
			require.Contains(s.t, p.recv(), `"isError":true`)
			p.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`)
		},
	}, {
		title: "question, deadline", about: "The deadline of the request ends the question too.",
		play: func(s *stage) {
			s.ask(2 * time.Second)
			p := s.old()
			p.ask(oldAsking)
			require.Contains(s.t, p.recv()+p.recv(), "deadline")
		},
	}, {
		title: "question, client_cancel", about: "The client cancels the request that asks.",
		play: func(s *stage) {
			s.ask(0)
			p := s.old()
			p.ask(oldAsking)
			p.send(cancelled(7))
			require.Contains(s.t, p.recv(), "notifications/cancelled")
		},
	}, {
		title: "question, session_delete", about: "The session ends while it waits.",
		play: func(s *stage) {
			s.ask(0)
			w := s.web()
			sid := w.session()
			a := w.start("POST", oldAsking, sid)
			w.do("DELETE", "", sid)
			a.wait()
		},
	}, {
		title: "question, peer_gone", about: "The client takes no event stream, and has none open: nothing can carry the question.",
		play: func(s *stage) {
			s.ask(0)
			w := s.web()
			require.Contains(s.t, w.do("POST", oldAsking, w.session(), "Accept: application/json").body, `"isError":true`)
		},
	}, {
		title: "question, too many", about: "A limit: the client is not asked.", limits: server.Limits{MaxOutbound: 1},
		play: func(s *stage) {
			s.ask(0)
			p := s.old()
			p.ask(oldAsking)
			require.Contains(s.t, p.ask(legacy(8, "tools/call", call("ask", `{}`))), "max_outbound")
			require.Contains(s.t, p.ask(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`), "asked")
		},
	}, {
		title: "question, request_done", about: "A goroutine that the handler has left behind asks: nobody is asked.",
		play: func(s *stage) {
			leave := make(chan struct{})
			server.AddTool(s.srv, server.Tool{Name: "ask"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
				go func() {
					<-leave
					_, _ = c.CallClient(ctx, mcp.MethodRootsList, nil)
				}()
				return "left", nil
			})
			p := s.old()
			p.ask(oldAsking)
			close(leave)
			synctest.Wait()
		},
	}, {
		title: "question, no back channel", about: "A modern client cannot be sent requests: there is no CLIENT span.",
		play: func(s *stage) {
			s.ask(0)
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("ask", `{}`))), `"isError":true`)
		},
	}, {
		title: "ping", about: "A legacy client that keeps a stream open is pinged, below no request. It misses one and answers one.",
		limits: server.Limits{PingInterval: 10 * time.Second},
		play: func(s *stage) {
			w := s.web()
			sid := w.session()
			w.start("GET", "", sid)
			time.Sleep(25 * time.Second) // the ping of 10 s has failed, that of 20 s waits
			require.Equal(s.t, 202, w.do("POST", `{"jsonrpc":"2.0","id":2,"result":{}}`, sid).status)
			require.Equal(s.t, 204, w.do("DELETE", "", sid).status)
		},
	}}
}
