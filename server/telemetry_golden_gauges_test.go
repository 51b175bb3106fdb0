package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// usedOf names, for gauges with the size of something, the gauge of what is used of it.
var usedOf = map[string]string{
	telemetry.MetricShareSize:   telemetry.MetricShareUsed,
	telemetry.MetricClassLimit:  telemetry.MetricClassInUse,
	telemetry.MetricMemoryBound: telemetry.MetricMemoryHeld,
}

// changesGauges are about the history of changes. How much it has depends on the hashes of its keys, which each
// process chooses anew, unless there is one key only.
var changesGauges = []string{telemetry.MetricChangesBytes, telemetry.MetricChangesKeys, telemetry.MetricChangesAge}

// measure writes every gauge that is not 0 while the scene holds things open, but changesGauges, which a scene must ask
// for. The size of a limit is written if something of it is used.
func (s *stage) measure(more ...string) {
	synctest.Wait()
	now := samples(s.t, s.registry)
	var b strings.Builder
	fmt.Fprintln(&b, "gauges while it is so:")
	for _, series := range slices.Sorted(maps.Keys(now)) {
		x := now[series]
		name, labels, _ := strings.Cut(series, "{")
		used, isSize := usedOf[name]
		if x.kind != dto.MetricType_GAUGE || x.value == 0 || name == telemetry.MetricBuildInfo ||
			isSize && now[used+"{"+labels].value == 0 || slices.Contains(changesGauges, name) && !slices.Contains(more, name) {
			continue
		}
		// The last digits of a quotient may differ between processors.
		value := strconv.FormatFloat(math.Round(x.value*1e6)/1e6, 'f', -1, 64)
		fmt.Fprintf(&b, "%s = %s\n", series, value)
	}
	b.WriteByte('\n')
	s.gauges = b.String()
}

// question adds a tool that asks the client by a method.
func (s *stage) question(tool, method string) {
	server.AddTool(s.srv, server.Tool{Name: tool}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
		_, err := c.CallClient(ctx, method, map[string]any{})
		return "asked", err
	})
}

// knownKeys is an authenticator that knows the keys of an issuer, and remembers tokens.
type knownKeys struct{ auth.Authenticator }

func (knownKeys) Stats() auth.Stats {
	return auth.Stats{
		Issuers:      []auth.IssuerStats{{Issuer: "https://login.example.com", Keys: 2, Fetched: time.Now().Add(-time.Minute)}},
		CachedTokens: 5,
	}
}

// gaugeScenes hold things open, and measure them.
func gaugeScenes() []scene {
	shared := &sharedMemory{}
	var keeps atomic.Bool
	evicting := new(store.Memory).Store()
	evicting.Check = func(context.Context) error {
		if keeps.Load() {
			return nil
		}
		return store.ErrEvicts
	}
	return []scene{{
		title: "standing, modern, over HTTP", about: "A class is full: one call runs and one waits. A subscription is open.",
		options: []server.Option{hourly("calls", 8, forMethods(mcp.MethodToolsCall))},
		play: func(s *stage) {
			s.subscribe()
			release := s.deaf(server.Tool{Name: "first", Class: server.NewClass("one", 1), Streams: true})
			w := s.web()
			w.start("POST", listenTo(1, watching), modernHeaders("subscriptions/listen", "")...)
			first := w.start("POST", modern(1, "tools/call", call("first", `{}`)), modernHeaders("tools/call", "first")...)
			time.Sleep(2 * time.Second)
			second := w.start("POST", modern(1, "tools/call", call("first", `{}`)), modernHeaders("tools/call", "first")...)
			time.Sleep(time.Second)
			s.measure()
			close(release)
			first.wait()
			second.wait()
		},
	}, {
		title: "standing, legacy, over HTTP", about: "Three tools wait for the client, which listens, is pinged, and has left an answer behind.",
		limits: server.Limits{PingInterval: 10 * time.Second, PingMisses: 10},
		play: func(s *stage) {
			s.subscribe()
			release := s.begin()
			s.question("roots", mcp.MethodRootsList)
			s.question("sample", mcp.MethodSamplingCreateMessage)
			s.question("elicit", mcp.MethodElicitationCreate)
			w := s.web()
			sid := w.session()
			w.do("POST", withURI(1, "resources/subscribe", "test://a"), sid)
			w.start("POST", beginning, sid).drop()
			close(release)
			w.start("GET", "", sid)
			var asked []*webAnswer
			for id, tool := range []string{"roots", "sample", "elicit"} {
				asked = append(asked, w.start("POST", legacy(7+id, "tools/call", call(tool, `{}`)), sid))
				time.Sleep(2 * time.Second)
			}
			time.Sleep(5 * time.Second) // 11 s: the client is pinged
			s.measure()
			for i, a := range asked {
				w.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i+1), sid)
				require.Contains(s.t, a.wait().body, "asked")
			}
			w.do("POST", `{"jsonrpc":"2.0","id":4,"result":{}}`, sid)
			require.Equal(s.t, 204, w.do("DELETE", "", sid).status)
		},
	}, {
		title: "standing, tasks", about: "One works, one waits for its client, one is done, and one does not return although it is cancelled.",
		options: []server.Option{server.WithTasks(server.Tasks{})},
		play: func(s *stage) {
			addSurvey(s.srv)
			s.create("survey")
			done := s.work(false, server.TaskOptions{})
			done.job.finish("done")
			stubborn := addJob(s.srv, "stubborn", true, server.TaskOptions{})
			deaf := s.create("stubborn")
			deaf.job = <-stubborn
			deaf.about("tasks/cancel", "")
			time.Sleep(15 * time.Second)
			working := s.create("work")
			s.measure()
			deaf.job.finish("too late")
			working.about("tasks/cancel", "")
		},
	}, {
		title: "standing, cancelled and abandoned", about: "Two handlers do not return although they are cancelled: one is abandoned.",
		play: func(s *stage) {
			release := s.deaf(server.Tool{Name: "wait"})
			p := s.pipe()
			p.send(waiting, cancelled(1))
			time.Sleep(15 * time.Second)
			p.send(modern(2, "tools/call", call("wait", `{}`)), cancelled(2))
			s.measure()
			release <- struct{}{}
			later()
			release <- struct{}{}
		},
	}, {
		title: "standing, saturated", about: "All slots are held, and the queue is full. A client does not read its answer.",
		limits: server.Limits{MaxInFlightTotal: 2, MaxQueue: 1, WriteTimeout: time.Hour},
		play: func(s *stage) {
			s.large()
			release := s.deaf(server.Tool{Name: "wait", Deadline: time.Hour})
			unread := s.mute(nil)
			unread.send(modern(1, "tools/call", call("large", `{}`)))
			p := s.pipe()
			p.send(modern(1, "tools/call", call("wait", `{}`)), modern(2, "tools/call", call("wait", `{}`)),
				modern(3, "tools/call", call("wait", `{}`)), modern(4, "tools/call", call("wait", `{}`)))
			time.Sleep(time.Minute)
			s.measure()
			for range 3 { // one after the other, so that the order is that of the scene
				later()
				release <- struct{}{}
			}
			later()
			_, err := unread.in.ReadString('\n')
			require.NoError(s.t, err)
			time.Sleep(time.Minute)
		},
	}, {
		title: "standing, request that arrives", about: "The client has sent the beginning of a large body.",
		play: func(s *stage) {
			conn, err := s.web().l.dial()
			require.NoError(s.t, err)
			fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: mcp.example\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
			s.measure()
			conn.Close()
		},
	}, {
		title: "standing, large arguments", about: "A handler waits, and keeps its arguments.",
		play: func(s *stage) {
			finish := make(chan struct{})
			server.AddTool(s.srv, server.Tool{Name: "keep"}, func(context.Context, *server.Call, struct {
				Any any `json:"any"`
			}) (string, error) {
				<-finish
				return "kept", nil
			})
			p := s.pipe()
			p.send(modern(1, "tools/call", call("keep", `{"any":`+objects(1000)+`}`)))
			s.measure()
			close(finish)
			later()
		},
	}, {
		title: "standing, transport of the program", about: "Its connections have a label for all that are not ours.",
		play: func(s *stage) {
			conn, served := newPigeonConn(), make(chan error)
			go func() { served <- s.srv.ServeConn(context.Background(), conn) }()
			s.measure()
			conn.end(io.EOF)
			require.NoError(s.t, <-served)
		},
	}, {
		title: "standing, audit", about: "The sink of the audit has taken the records of its begin and of one call, and takes no more.",
		play: func(s *stage) {
			sink := &trail{}
			log, err := audit.New(audit.Config{Sinks: []audit.Sink{sink}, Key: bytes.Repeat([]byte{7}, 32)})
			require.NoError(s.t, err)
			server.SetAudit(s.srv, log)
			p := s.pipe()
			p.ask(echo(1))
			time.Sleep(time.Second)
			synctest.Wait() // the sink is at rest
			sink.gate = make(chan struct{})
			p.ask(echo(2))
			p.ask(echo(3))
			time.Sleep(2 * time.Minute)
			s.measure()
			close(sink.gate)
			require.NoError(s.t, log.Close(context.Background()))
		},
	}, {
		title: "standing, store away", about: "The store that replicas share does not answer.",
		options: []server.Option{server.WithStateKeys(stateKey(1)), server.WithStore(shared.store())},
		play: func(s *stage) {
			w := s.web()
			sid := w.session()
			shared.fail(errors.New("down"))
			for id := range 5 { // of requests at another replica
				w.do("POST", cancelled(id), sid)
			}
			time.Sleep(time.Minute)
			s.measure()
			shared.fail(nil)
			time.Sleep(time.Minute)
			s.forget() // how often the store is asked meanwhile is a matter of luck
		},
	}, {
		title: "standing, store that evicts", about: "The store that replicas share may delete values before their end.",
		options: []server.Option{server.WithStateKeys(stateKey(1)), server.WithStore(evicting)},
		play: func(s *stage) {
			synctest.Wait() // until the replica has looked
			s.measure()
			keeps.Store(true)
			time.Sleep(2 * time.Minute) // until it has looked again
			keeps.Store(false)
		},
	}, {
		title: "standing, keys and tokens", about: "An authenticator has the keys of an issuer, and remembers tokens.",
		options: []server.Option{server.WithAuthenticator(knownKeys{auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) {
			return &auth.Principal{Subject: "ann"}, nil
		})})},
		play: func(s *stage) { s.measure() },
	}, {
		title: "standing, history of changes", about: "It has the first call when the second one comes some time later.",
		play: func(s *stage) {
			p := s.pipe()
			p.ask(echo(1))
			time.Sleep(15 * time.Second)
			p.ask(echo(2))
			s.measure(changesGauges...)
		},
	}, {
		title: "standing, console", about: "Somebody looks at the console.",
		play: func(s *stage) {
			ctx, close := context.WithCancel(context.Background())
			left := make(chan struct{})
			go func() {
				s.tel.LiveHandler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/debug/live", nil))
				left <- struct{}{}
			}()
			s.measure()
			close()
			<-left
		},
	}}
}
