package session

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A drain that has run out of time logs the whole picture, cut to size: the totals in one
// record, and what was left one by one.
func TestDrainDeadlineRecords(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		long := strings.Repeat("x", 1000)
		p := w.connect(true)
		p.s.Initialize(&Peer{Version: mcp.LatestLegacyVersion, Client: mcp.Implementation{Name: "evil\x1b[2J" + long, Version: "1"}})
		p.s.Initialized()
		w.open("another")

		quick, deaf := w.gate("quick", false), w.gate("deaf", true)
		asker := w.asker("asker", false)
		p.call("1", "quick")
		quick.next().finish("done")
		p.call(`"`+long+`"`, "deaf")
		h := deaf.next()
		p.call(`"`+long+`"`, "quick") // rejected as a duplicate
		time.Sleep(time.Second)
		p.cancel(`"`+long+`"`, "bored\u0085"+long)
		p.call("3", "asker")
		asker.blocked()
		work := w.detacher("task")
		p.call("4", "task")
		d := work.next()

		deadline, done := w.shutdown()
		time.Sleep(time.Second)
		deadline()
		w.settle()
		defer func() {
			d.Done()
			h.finish("late")
			<-done
		}()
		w.loggedWith("WARN drain.deadline left=2 oldest=2s subscriptions=0 tasks=1 outbound=1",
			"in_flight=[blocked=1 cancelled=1]", "sessions=[http=1 stdio=1]",
			"totals=[received=[notification=1 request=5] admitted=4 sent=2 stored=0 dropped=[cancelled=1] "+
				"cancelled=[client_cancel=1] rejected=[duplicate_id=1] panics=0]")
		w.loggedWith("WARN drain.left", "target=deaf", "age=2s", "state=cancelled", "left=58s", "transport=stdio",
			"client=evil\ufffd[2Jxxx", "client_version=1", "cause=client_cancel", "cancelled_for=1s", "abandoned=false", "reason=bored\ufffdxxx")
		w.loggedWith("WARN drain.left", "target=asker", "state=blocked")
		w.loggedWith("WARN drain.left", "task=task-1", "left=59s")
		require.Equal(w.t, 3, w.times("WARN drain.left"))
		w.loggedWith("WARN drain.outbound", "method=roots/list", "age=1s")
		require.Equal(w.t, 1, w.times("WARN drain.outbound"))
		w.loggedWith("WARN drain.session", "transport=stdio", "age=2s", "idle=0s", "requests=2", "streaming=false",
			"client=evil\ufffd[2Jxxx", "client_version=1")
		w.loggedWith("WARN drain.session", "transport=http", "requests=0")
		require.Equal(w.t, 2, w.times("WARN drain.session"))
		for _, line := range w.log.details {
			if strings.Contains(line, "drain.") {
				require.Less(w.t, len(line), 1000)
				require.NotContains(w.t, line, "\x1b")
			}
		}
	})
}

// However many requests are left, the log has the oldest hundred.
func TestDrainLogsTheOldest(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		w.handle("work", func(ctx context.Context, _ *Request) (mcp.Result, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		p := w.connect(true)
		for i := range maxLeftLogged + 5 {
			p.call(fmt.Sprint(i), "work")
			time.Sleep(time.Millisecond)
		}
		deadline, done := w.shutdown()
		deadline()
		require.NoError(w.t, <-done)
		w.loggedWith("WARN drain.deadline", fmt.Sprintf("left=%d ", maxLeftLogged+5))
		require.Equal(w.t, maxLeftLogged, w.times("WARN drain.left"))
		var first, last string
		for _, line := range w.log.details {
			if strings.HasPrefix(line, "WARN drain.left") {
				last = line
				if first == "" {
					first = line
				}
			}
		}
		require.Contains(w.t, first, " id=0 ")
		require.Contains(w.t, last, fmt.Sprintf(" id=%d ", maxLeftLogged-1))
	})
}

// What a client says of itself comes from its message or from its handshake, and is
// nothing where it cannot be read.
func TestClientOf(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, tt := range []struct {
		name          string
		era           mcp.Era
		info          string
		peer          *Peer
		client, build string
	}{
		{"modern", mcp.Modern, `{"name":"a\u0007","version":"1"}`, nil, "a\ufffd", "1"},
		{"modern, in a session", mcp.Modern, `{"name":"a"}`, &Peer{Client: mcp.Implementation{Name: "b"}}, "a", ""},
		{"modern, long", mcp.Modern, `{"name":"` + long + `","version":"` + long + `"}`, nil, long[:64], long[:64]},
		{"modern, none", mcp.Modern, "", nil, "", ""},
		{"modern, no object", mcp.Modern, `[]`, nil, "", ""},
		{"legacy", mcp.Legacy, `{"name":"a"}`, &Peer{Client: mcp.Implementation{Name: "b", Version: "2"}}, "b", "2"},
		{"legacy, before its handshake", mcp.Legacy, "", nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, limits.Limits{}, func(w *world) {
				in := &Inbound{Era: tt.era, Envelope: wire.Envelope{}}
				if tt.info != "" {
					in.Meta.ClientInfo = []byte(tt.info)
				}
				s := w.connect(false).s
				if tt.peer != nil {
					s.Initialize(tt.peer)
				}
				for _, of := range []func(*Inbound, *Session) (string, string){ClientOf, w.core.ClientOf, w.core.ClientOf} {
					client, build := of(in, s) // the last time it is remembered
					require.Equal(t, tt.client, client)
					require.Equal(t, tt.build, build)
				}
				client, _ := ClientOf(in, nil)
				require.Equal(t, tt.era == mcp.Modern && tt.client != "", client != "")
			})
		})
	}
}
