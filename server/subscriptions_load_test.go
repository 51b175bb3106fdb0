package server_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/transport"
)

// A deaf pipe is one whose client sends, and reads only when it is told to.
type deafPipe struct {
	t    *testing.T
	conn net.Conn
}

func dialDeaf(t *testing.T, srv *server.Server) *deafPipe {
	serverEnd, clientEnd := transport.Memory()
	served := make(chan error, 1)
	go func() { served <- srv.ServePipe(context.Background(), serverEnd) }()
	t.Cleanup(func() {
		clientEnd.Close()
		<-served
	})
	return &deafPipe{t, clientEnd}
}

func (p *deafPipe) send(frame string) {
	_, err := p.conn.Write([]byte(frame + "\n"))
	require.NoError(p.t, err)
	synctest.Wait()
}

// hear reads all that there is.
func (p *deafPipe) hear() (lines []string) {
	p.t.Helper()
	var text strings.Builder
	buf := make([]byte, 64<<10)
	for {
		require.NoError(p.t, p.conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
		n, err := p.conn.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			break
		}
	}
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

// A client that does not read during thousands of changes costs no more than others and is not
// disconnected. When it reads again, it learns of everything that has changed.
func TestSlowReaderGetsTheLatestChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		subscribe func(p *deafPipe)
		tools     string // how a change of the tools is told
		a         string // and an update of test://a
	}{
		"modern": {
			func(p *deafPipe) { p.send(listenTo(1, everything)) },
			about(1, toolsChanged, ""), updated(1, "test://a"),
		},
		"legacy": {
			func(p *deafPipe) {
				p.send(legacy(0, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
				p.hear()
				p.send(notice("notifications/initialized", ""))
				p.send(withURI(1, "resources/subscribe", "test://a"))
			},
			notice(toolsChanged, ""), notice("notifications/resources/updated", `{"uri":"test://a"}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := changing(t)
				p := dialDeaf(t, srv)
				tt.subscribe(p)
				p.hear()
				quick := servertest.Connect(t, srv)
				s, err := quick.Listen(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
				require.NoError(t, err)
				for i := range 3000 {
					if i%2 == 0 {
						server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
					} else {
						srv.RemoveTools("x")
					}
					srv.ResourceUpdated("test://a")
					srv.ResourceUpdated(fmt.Sprint("test://a/", i))
					if i%100 == 0 {
						synctest.Wait()
						_, err := s.Next(t.Context())
						require.NoError(t, err, "nobody waits for the slow one")
					}
				}
				synctest.Wait()
				counters := srv.Core().Snapshot().Counters
				require.Empty(t, counters.NotificationsDropped)
				require.NotZero(t, counters.LimitsReached["max_pending_updates"])

				lines := p.hear()
				require.Less(t, len(lines), srv.Limits().MaxPendingUpdates+50, "what was queued, and what was remembered")
				told := map[string]int{}
				for _, line := range lines {
					told[line]++
				}
				require.LessOrEqual(t, told[canon(t, tt.tools, lines)], 3)
				require.GreaterOrEqual(t, told[canon(t, tt.tools, lines)], 1)
				require.GreaterOrEqual(t, told[canon(t, tt.a, lines)], 1)

				srv.ResourceUpdated("test://a") // it is as good as any other now
				synctest.Wait()
				last := p.hear()
				require.Len(t, last, 1)
				require.JSONEq(t, tt.a, last[0])
				require.NoError(t, quick.Close())
			})
		})
	}
}

// canon returns the line that is the same JSON.
func canon(t *testing.T, want string, lines []string) string {
	for _, line := range lines {
		if sameJSON(want, line) {
			return line
		}
	}
	require.Fail(t, "missing", want)
	return ""
}

func sameJSON(a, b string) bool {
	var quiet quietT
	require.JSONEq(&quiet, a, b)
	return !quiet.failed
}

type quietT struct{ failed bool }

func (q *quietT) Errorf(string, ...any) { q.failed = true }
func (q *quietT) FailNow()              {}

// Thousands of listeners, in both eras and on few pipes, all get one change.
func TestThousandsOfListeners(t *testing.T) {
	const pipes, each = 10, 300
	srv := changing(t)
	var all []*rawPipe
	for range pipes {
		all = append(all, dial(t, srv)) // it has room for 1000 lines
	}
	for _, p := range all {
		p.initialize("2025-11-25")
		for id := range each {
			p.ask(listenTo(id, `{"toolsListChanged":true}`))
		}
	}
	subscribed(t, srv, pipes*each)
	server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
	for _, p := range all {
		seen := map[string]bool{}
		for range each + 1 {
			seen[p.recv()] = true
		}
		require.Len(t, seen, each+1, "each once, and the legacy session")
	}
	conserved(t, srv)
}

// Registrations, updates and subscriptions begin and end at the same time, for the race
// detector. The counters are balanced afterwards.
func TestChangesWhileListenersComeAndGo(t *testing.T) {
	srv := changing(t)
	stop := make(chan struct{})
	var changers, clients sync.WaitGroup
	for c := range 3 {
		changers.Go(func() {
			name := fmt.Sprint("tool-", c)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				server.AddTool(srv, server.Tool{Name: name}, text("x"))
				srv.ResourceUpdated(fmt.Sprint("test://item/", i%5))
				addPrompt(srv, name)
				srv.RemoveTools(name)
				srv.RemovePrompts(name)
			}
		})
	}
	for c := range 8 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(6, uint64(c)))
			var opts []servertest.Option
			if c%2 == 0 {
				opts = append(opts, servertest.Legacy(mcp.Version20251125))
			}
			for range 5 {
				client := servertest.Connect(t, srv, opts...)
				for i := range 10 {
					if c%2 == 0 {
						uri := map[string]string{"uri": fmt.Sprint("test://item/", i%5)}
						_, err := client.Call(t.Context(), mcp.MethodResourcesSubscribe, uri)
						_, err2 := client.Call(t.Context(), mcp.MethodResourcesUnsubscribe, uri)
						if err != nil || err2 != nil {
							t.Error(err, err2)
						}
						continue
					}
					s, err := client.Listen(t.Context(), mcp.SubscriptionFilter{
						ToolsListChanged: true, PromptsListChanged: true, ResourceSubscriptions: []string{"test://item/1", "test://item/2"},
					})
					if err != nil {
						t.Error(err)
						return
					}
					for range rng.IntN(4) {
						if _, err := s.Next(t.Context()); err != nil {
							t.Error(err)
						}
					}
					if rng.IntN(3) > 0 {
						_ = s.Close()
					}
				}
				_ = client.Close()
			}
		})
	}
	clients.Wait()
	close(stop)
	changers.Wait()
	conserved(t, srv)
	require.Zero(t, srv.Core().Snapshot().Counters.ObserverPanics)
}

// During a drain in a burst of changes every subscription ends with its answer, and nothing
// follows that.
func TestDrainDuringABurst(t *testing.T) {
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, uint64(seed)))
			srv := changing(t)
			p := dial(t, srv)
			const listens, changes = 8, 50 // what they make has room in the lines of the pipe
			for id := range listens {
				p.ask(listenTo(id, everything))
			}
			when := time.Duration(rng.IntN(changes))
			var changer sync.WaitGroup
			changer.Go(func() {
				for i := range changes {
					srv.ResourceUpdated("test://a")
					server.AddTool(srv, server.Tool{Name: fmt.Sprint("x", i)}, text("x"))
					time.Sleep(time.Duration(rng.IntN(3)))
				}
			})
			defer changer.Wait()
			time.Sleep(when)
			conserved(t, srv)
			over := map[string]bool{}
			for line := range p.lines {
				for id := range listens {
					if strings.Contains(line, fmt.Sprintf(`subscriptionId":%d}`, id)) {
						require.False(t, over[fmt.Sprint(id)], "%s follows the answer", line)
						if strings.Contains(line, `"result":`) {
							over[fmt.Sprint(id)] = true
						}
					}
				}
			}
			require.Len(t, over, listens)
		})
	}
}

// Over HTTP each listener has a connection of its own. All get a change, and a client that
// disconnects leaves nothing behind.
func TestManyListenersOverHTTP(t *testing.T) {
	const n = 100
	srv := changing(t)
	url := listen(t, srv)
	headers := []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"}
	streams := make([]*eventStream, n)
	for i := range streams {
		streams[i] = openStream(t, "POST", url, listenTo(i, `{"toolsListChanged":true}`), headers...)
		require.JSONEq(t, acknowledged(i, `{"toolsListChanged":true}`), streams[i].next())
	}
	server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
	for i, s := range streams {
		require.JSONEq(t, about(i, toolsChanged, ""), s.next())
	}
	for _, s := range streams[:n/2] {
		s.Body.Close()
	}
	subscribed(t, srv, n/2)
	srv.RemoveTools("x")
	for i, s := range streams[n/2:] {
		require.JSONEq(t, about(n/2+i, toolsChanged, ""), s.next())
	}
	conserved(t, srv)
	for i, s := range streams[n/2:] {
		require.JSONEq(t, over(n/2+i), s.next())
		s.ends()
	}
}

// BenchmarkOpenStreams measures the memory of an open subscription, over HTTP (with that of
// net/http) and on a shared pipe.
func BenchmarkOpenStreams(b *testing.B) {
	b.Run("http", func(b *testing.B) {
		srv := newServer(b)
		server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
		ts := httptest.NewServer(srv.Handler())
		var conns []net.Conn
		measure(b, srv, func() { conns = append(conns, openListen(b, ts)) })
		for _, conn := range conns {
			conn.Close()
		}
		ts.Close()
	})
	b.Run("pipe", func(b *testing.B) {
		srv := newServer(b)
		server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
		var conn net.Conn
		n := 0
		measure(b, srv, func() {
			if n%1000 == 0 {
				serverEnd, clientEnd := transport.Memory()
				go func() { _ = srv.ServePipe(context.Background(), serverEnd) }()
				go func() {
					buf := make([]byte, 4096)
					for {
						if _, err := clientEnd.Read(buf); err != nil {
							return
						}
					}
				}()
				conn = clientEnd
			}
			n++
			_, err := conn.Write([]byte(listenTo(n, `{"toolsListChanged":true}`) + "\n"))
			require.NoError(b, err)
		})
	})
}

// BenchmarkResourceUpdate measures the time until a thousand listeners over HTTP have read one
// change, clients included.
func BenchmarkResourceUpdate(b *testing.B) {
	const n = 1000
	srv := newServer(b)
	server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
	ts := httptest.NewServer(srv.Handler())
	var told sync.WaitGroup
	var conns []net.Conn
	told.Add(n)
	for range n {
		conn := openListen(b, ts)
		conns = append(conns, conn)
		go func() {
			for in := bufio.NewScanner(conn); in.Scan(); {
				if strings.HasPrefix(in.Text(), "data: ") {
					told.Done()
				}
			}
		}()
	}
	told.Wait() // the acknowledgements
	for b.Loop() {
		told.Add(n)
		srv.RemoveTools("x")
		told.Wait()
		b.StopTimer()
		told.Add(n)
		server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
		told.Wait()
		b.StartTimer()
	}
	for _, conn := range conns {
		conn.Close()
	}
	ts.Close()
	_ = srv.Shutdown(context.Background())
}

// openListen sends a subscriptions/listen on a connection of its own.
func openListen(b *testing.B, ts *httptest.Server) net.Conn {
	body := listenTo(1, `{"toolsListChanged":true}`)
	conn, err := net.Dial("tcp", ts.Listener.Addr().String())
	require.NoError(b, err)
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nContent-Length: %d\r\n\r\n%s",
		ts.Listener.Addr(), len(body), body)
	require.NoError(b, err)
	return conn
}

// measure opens b.N streams and reports what one of them holds.
func measure(b *testing.B, srv *server.Server, open func()) {
	used := func() (heap, stacks float64) {
		for range 3 { // stacks shrink by half each time
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc), float64(m.StackInuse)
	}
	heap, stacks := used()
	for range b.N {
		open()
	}
	for len(srv.Core().Snapshot().Subscriptions) < b.N {
		time.Sleep(time.Millisecond)
	}
	moreHeap, moreStacks := used()
	b.ReportMetric((moreHeap-heap)/float64(b.N), "heap-B/stream")
	b.ReportMetric((moreStacks-stacks)/float64(b.N), "stack-B/stream")
	b.ReportMetric(float64(runtime.NumGoroutine())/float64(b.N), "goroutines/stream")
	_ = srv.Shutdown(context.Background())
}
