package server_test

import (
	"bufio"
	"context"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/transport"
)

const withToken = `"progressToken":"p"`

var (
	parting    = modern(1, "tools/call", call("part", `{}`), withToken)
	oldParting = legacy(1, "tools/call", call("part", `{}`)+`,"_meta":{`+withToken+`}`)
)

// part adds a tool that waits for its end and then reports progress, which comes too
// late. It ends with its context, or when it is let go.
func (s *stage) part() (release chan struct{}) {
	release = make(chan struct{})
	server.AddTool(s.srv, server.Tool{Name: "part"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
		select {
		case <-ctx.Done():
		case <-release:
		}
		time.Sleep(time.Millisecond)          // what is decided meanwhile comes first
		_ = c.Progress(1, 1, "the last word") // to be dropped
		return "done", nil
	})
	return release
}

// large adds a tool whose answer is too large for one write.
func (s *stage) large() {
	server.AddTool(s.srv, server.Tool{Name: "large"}, text(strings.Repeat("x", 100_000)))
}

// begin adds tools that report progress, and wait to be let go: "begin" and "other".
func (s *stage) begin() (release chan struct{}) {
	release = make(chan struct{})
	for _, name := range []string{"begin", "other"} {
		server.AddTool(s.srv, server.Tool{Name: name}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
			_ = c.Progress(1, 2, "begun")
			select {
			case <-ctx.Done():
			case <-release:
			}
			return "done", nil
		})
	}
	return release
}

var beginning = legacy(1, "tools/call", call("begin", `{}`)+`,"_meta":{`+withToken+`}`)

// An unreadWriter is the response to a client that does not read. That of net/http also
// cancels the request when its write has failed, and which of the two is seen first is a
// matter of luck.
type unreadWriter struct {
	*httptest.ResponseRecorder
	deadline atomic.Pointer[time.Time] // may be set while a write blocks
	changed  chan struct{}             // has a value when it was set
}

func newUnreadWriter() *unreadWriter {
	return &unreadWriter{ResponseRecorder: httptest.NewRecorder(), changed: make(chan struct{}, 1)}
}

func (w *unreadWriter) SetWriteDeadline(t time.Time) error {
	w.deadline.Store(&t)
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return nil
}

func (w *unreadWriter) Write([]byte) (int, error) {
	for {
		var late <-chan time.Time
		if at := w.deadline.Load(); at != nil {
			if !time.Now().Before(*at) {
				return 0, os.ErrDeadlineExceeded
			}
			late = time.After(time.Until(*at))
		}
		select {
		case <-w.changed:
		case <-late:
		}
	}
}

// unread makes a request whose client does not read the response, and returns when that has ended.
func (s *stage) unread(method, body string, headers ...string) {
	req := httptest.NewRequest(method, webURL, strings.NewReader(s.frame(body)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	s.srv.Handler().ServeHTTP(newUnreadWriter(), req)
}

// dropScenes are the answers, and the notifications, that are not sent.
func dropScenes() []scene {
	return []scene{{
		title: "cancelled", about: "An answer, and a notification, that the client does not want any more.",
		play: func(s *stage) {
			s.part()
			p := s.pipe()
			p.send(parting, cancelled(1))
			p.silent()
		},
	}, {
		title: "closed_writer", about: "We close the connection, because it carries only garbage.",
		limits: server.Limits{MaxConsecutiveMalformed: 2},
		play: func(s *stage) {
			s.part()
			p := s.pipe()
			p.send(parting, "}", "}")
			synctest.Wait()
		},
	}, {
		title: "closed_writer of a notification", about: "The same while a notification waits for a client that does not read.",
		limits: server.Limits{MaxConsecutiveMalformed: 2},
		play: func(s *stage) {
			release := s.begin()
			defer close(release)
			p := s.mute(nil)
			p.send(modern(1, "tools/call", call("begin", `{}`), withToken), modern(2, "tools/call", call("other", `{}`), withToken),
				"}", "}")
		},
	}, {
		title: "broken_peer", about: "A write fails: nobody reads the other end of the pipe.",
		play: func(s *stage) {
			s.part()
			var broken *brokenPipe
			p := s.mute(func(c net.Conn) transport.Pipe { broken = &brokenPipe{Conn: c}; return broken })
			p.send(parting)
			broken.fail(syscall.EPIPE)
			p.send(echo(2))
		},
	}, {
		title: "broken_peer over HTTP", about: "The client hangs up while its answer is being written.",
		play: func(s *stage) {
			s.large()
			conn := s.web().raw(modern(1, "tools/call", call("large", `{}`)), modernHeaders("tools/call", "large")...)
			later()
			conn.Close()
			synctest.Wait()
		},
	}, {
		title: "unconfirmed", about: "The client hangs up when it has its answer, and before the end of the chunk around it.",
		play: func(s *stage) {
			s.large()
			conn := s.web().raw(modern(1, "tools/call", call("large", `{}`)), append(modernHeaders("tools/call", "large"), "Accept: text/event-stream")...)
			later()
			for in, read := bufio.NewReaderSize(conn, 16), ""; !strings.HasSuffix(read, `xxx"}]`); {
				part, err := in.ReadString(']')
				require.NoError(s.t, err)
				read = part
			}
			conn.Close()
			synctest.Wait()
		},
	}, {
		title: "write_timeout", about: "The client does not read for 30 s: the connection is given up, with all its requests.",
		play: func(s *stage) {
			s.part()
			p := s.mute(nil)
			p.send(parting, echo(2))
			time.Sleep(time.Minute)
		},
	}, {
		title: "write_timeout over HTTP", about: "The same for one exchange.",
		play: func(s *stage) {
			s.unread("POST", echo(1), modernHeaders("tools/call", "echo")...)
		},
	}, {
		title: "write_timeout of a stream over HTTP", about: "The client does not read the stream that has its answer.",
		play: func(s *stage) {
			s.unread("POST", echo(1), append(modernHeaders("tools/call", "echo"), "Accept: text/event-stream")...)
		},
	}, {
		title: "overload over HTTP", about: "A client does not read its stream, and another one needs the memory: the stream is given up.",
		limits: server.Limits{MaxQueuedBytesTotal: 118_000},
		play: func(s *stage) {
			s.large()
			server.AddTool(s.srv, server.Tool{Name: "modest"}, text(strings.Repeat("x", 20_000)))
			go s.unread("POST", modern(1, "tools/call", call("large", `{}`)), append(modernHeaders("tools/call", "large"), "Accept: text/event-stream")...)
			later()
			modest := s.mute(nil)
			modest.send(modern(1, "tools/call", call("modest", `{}`)))
			later()
			_, err := modest.in.ReadString('\n')
			require.NoError(s.t, err)
			later()
		},
	}, {
		title: "overload", about: "A client does not read, and another one needs the memory: its connection is given up.",
		limits: server.Limits{MaxQueuedBytesTotal: 118_000},
		play: func(s *stage) {
			s.large()
			s.part()
			server.AddTool(s.srv, server.Tool{Name: "modest"}, text(strings.Repeat("x", 20_000)))
			greedy, modest := s.mute(nil), s.mute(nil)
			greedy.send(parting, modern(2, "tools/call", call("large", `{}`)))
			later()
			modest.send(modern(1, "tools/call", call("modest", `{}`)))
			_, err := modest.in.ReadString('\n')
			require.NoError(s.t, err)
			later()
		},
	}, {
		title: "write_timeout of a notification", about: "What waits behind it has the same fate.",
		limits: server.Limits{RequestTimeout: 5 * time.Minute},
		play: func(s *stage) {
			release := s.begin()
			p := s.mute(nil)
			p.send(modern(1, "tools/call", call("begin", `{}`), withToken))
			time.Sleep(time.Minute)
			close(release)
		},
	}, {
		title: "session_gone", about: "The session is deleted.",
		play: func(s *stage) {
			s.part()
			w := s.web()
			sid := w.session()
			a := w.start("POST", oldParting, sid)
			require.Equal(s.t, 204, w.do("DELETE", "", sid).status)
			a.wait()
		},
	}, {
		title: "stream_gone", about: "A legacy exchange is lost, and nothing keeps what it would have carried.",
		options: []server.Option{server.WithoutEventStore()},
		play: func(s *stage) {
			release := s.part()
			w := s.web()
			w.start("POST", oldParting, w.session()).drop()
			slowly() // the loss is seen before the last word
			close(release)
		},
	}, {
		title: "stored", about: "A legacy exchange is lost, and its answer is kept until the client comes back for it.",
		play: func(s *stage) {
			release := s.begin()
			w := s.web()
			sid := w.session()
			a := w.start("POST", beginning, sid)
			a.drop()
			close(release)
			later()
			require.Contains(s.t, w.do("GET", "", sid, "Last-Event-ID: "+lastID(a.body)).body, "done")
		},
	}, {
		title: "stored, and nobody comes back", about: "The session is deleted, and with it the answer: counted as stored and as expired.",
		play: func(s *stage) {
			release := s.begin()
			w := s.web()
			sid := w.session()
			w.start("POST", beginning, sid).drop()
			close(release)
			later()
			w.do("DELETE", "", sid)
		},
	}, {
		title: "event store out of order", about: "The store fails: the answer is sent over the stream that there is.",
		options: []server.Option{server.WithEventStore(&eventLog{broken: true})},
		play: func(s *stage) {
			release := s.begin()
			w := s.web()
			a := w.start("POST", beginning, w.session())
			close(release)
			require.Contains(s.t, a.wait().body, "done")
		},
	}, {
		title: "after_response", about: "A goroutine of the handler reports progress when the answer is out.",
		play: func(s *stage) {
			go_ := make(chan struct{})
			server.AddTool(s.srv, server.Tool{Name: "part"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
				go func() {
					<-go_
					_ = c.Progress(1, 1, "")
				}()
				return "done", nil
			})
			p := s.pipe()
			p.ask(parting)
			close(go_)
			synctest.Wait()
		},
	}, {
		title: "no_progress_token", about: "Progress that nobody asked for is no loss: a counter, and nothing on the span.",
		play: func(s *stage) {
			close(s.part())
			s.pipe().ask(modern(1, "tools/call", call("part", `{}`)))
		},
	}, {
		title: "queue_full", about: "The client does not read, and the queue of the stream is full for 1 s.",
		limits: server.Limits{MaxQueuedMessages: 1},
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "many"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
				for range 3 {
					time.Sleep(time.Millisecond) // the writer has taken the one before
					_ = c.Log(mcp.LogWarning, "news")
				}
				return "done", nil
			})
			p := s.mute(nil)
			p.send(modern(1, "tools/call", call("many", `{}`), `"io.modelcontextprotocol/logLevel":"warning"`))
			time.Sleep(5 * time.Second)
			for range 3 {
				_, err := p.in.ReadString('\n')
				require.NoError(s.t, err)
			}
		},
	}, {
		title: "level_filtered", about: "A log message below the client's level: on the span all the same.",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "talk"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
				return "done", c.Log(mcp.LogDebug, "details")
			})
			s.pipe().ask(modern(1, "tools/call", call("talk", `{}`)))
		},
	}}
}
