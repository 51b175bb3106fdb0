package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The races of a stream that can be resumed. What holds after each of them is what its
// client has seen: every event once and in order, however often it came back.

// remember gives the explorer an event store that stops before it does anything.
func (x *explorer) remember() *scriptStore {
	store := &scriptStore{Memory: resume.NewMemory(), at: x.park}
	hooks := x.core.hooks
	x.core = New(Config{
		Dispatcher: x.world, Observer: x.record, Logger: slog.New(x.log), Limits: x.core.limits, Events: store,
	})
	x.core.hooks = hooks
	store.Bind(x.core.limits, x.core.ledger.limitReached)
	return store
}

// A parkingSink is a wire that stops before it does anything, and is dead when the
// exchange was lost.
type parkingSink struct {
	*scriptSink
	x    *explorer
	name string
	dead atomic.Bool
}

func (k *parkingSink) Write(m *stream.Message) error {
	k.x.park(k.name + " writes")
	if k.dead.Load() {
		return &stream.WriteError{Reason: mcp.DropBrokenPeer, Err: errReset}
	}
	return k.scriptSink.Write(m)
}

func (k *parkingSink) Flush() error {
	k.x.park(k.name + " flushes")
	if k.dead.Load() {
		return &stream.WriteError{Reason: mcp.DropBrokenPeer, Err: errReset}
	}
	return k.scriptSink.Flush()
}

// A follower is a client that follows one stream over as many exchanges as it takes.
type follower struct {
	x      *explorer
	s      *Session
	name   string
	sink   *parkingSink
	lost   func() // tells the stream that the present exchange is gone
	ended  chan struct{}
	prefix string
	seq    int      // of the last event that it has seen
	read   int      // events of the present exchange that it has seen
	frames []string // all that it has seen
}

// follow opens a stream: with a POST, or, without a frame, the session's own.
func (x *explorer) follow(s *Session, name, frame string) *follower {
	f := &follower{x: x, s: s, name: name}
	f.sink = &parkingSink{scriptSink: &scriptSink{}, x: x, name: name}
	e := x.newExchange(1, mcp.Legacy)
	if frame == "" {
		e = x.newExchange(0, mcp.Legacy)
		require.True(x.t, s.Attach(e.stream))
	} else {
		x.postOn(e, s, frame)
	}
	f.lost, f.ended = e.stream.Lost, e.done
	e.pump(f.sink)
	return f
}

// look takes in what has arrived.
func (f *follower) look() {
	f.sink.mu.Lock()
	defer f.sink.mu.Unlock()
	for _, e := range f.sink.sent[f.read:] {
		i := strings.LastIndexByte(e.id, '-')
		require.Positive(f.x.t, i, "an event without an id: %s", e.frame)
		seq, _ := strconv.Atoi(e.id[i+1:])
		if f.prefix == "" {
			f.prefix = e.id[:i+1]
		}
		require.Equal(f.x.t, f.prefix, e.id[:i+1], "another stream's event")
		if e.frame != "" {
			require.Greater(f.x.t, seq, f.seq, "an event comes twice, or too late")
			f.frames = append(f.frames, e.frame)
		}
		f.seq = max(f.seq, seq)
	}
	f.read = len(f.sink.sent)
}

// drop loses the exchange. What had not arrived by then never will.
func (f *follower) drop() {
	f.sink.dead.Store(true)
	f.look()
	f.lost()
}

// back comes again with the last event that the client has seen.
func (f *follower) back() error {
	sink := &parkingSink{scriptSink: &scriptSink{}, x: f.x, name: f.name + "'"}
	r, err := f.s.Resume(f.x.t.Context(), f.prefix+strconv.Itoa(f.seq))
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	f.sink, f.read, f.lost, f.ended = sink, 0, r.Lost, ended
	go func() {
		defer close(ended)
		defer r.Close()
		_ = r.Pump(sink)
	}()
	return nil
}

// backUnlessOver comes again; the stream may have nothing more to say.
func (f *follower) backUnlessOver() {
	if err := f.back(); err != nil {
		require.ErrorIs(f.x.t, err, resume.ErrEventUnknown)
	}
}

// finish comes back until the stream has nothing more for the client.
func (f *follower) finish() {
	for {
		f.x.settle()
		f.look()
		select {
		case <-f.ended:
		default:
			return // it is live, and has said all
		}
		if err := f.back(); err != nil {
			require.ErrorIs(f.x.t, err, resume.ErrEventUnknown)
			return
		}
	}
}

// noted are the frames of the notifications 1 to n.
func noted(n int, more ...string) (frames []string) {
	for i := range n {
		frames = append(frames, noteFrame(i+1))
	}
	return append(frames, more...)
}

// begun brings a request into state R whose client has the mark and one notification.
func (x *explorer) begun(g *gate, s *Session, name string) (*held, *follower) {
	f := x.follow(s, name, callFrame("1", "work"))
	h := g.next()
	require.NoError(x.t, h.note(1))
	x.settle()
	f.look()
	require.Equal(x.t, 2, f.seq)
	return h, f
}

// firstFate names what became of the first request.
func (x *explorer) firstFate() string {
	r, _ := x.request(0)
	fate, reason := r.Fate()
	return strings.TrimSuffix(fate.String()+" "+string(reason), " ")
}

var resumption16 = []race{
	// The exchange is lost at any moment of what the request says.
	{name: "loss-vs-write", random: true, endings: []string{"sent", "stored"}, script: func(x *explorer) {
		x.remember()
		s, g := x.open("s1"), x.gate("work", true)
		h, f := x.begun(g, s, "client")
		x.actor("handler", func() { _ = h.note(2) }, func() { _ = h.note(3) }, func() { h.finish("done") })
		x.actor("client", f.drop, f.backUnlessOver)
		x.run()
		f.finish()
		require.Equal(x.t, noted(3, resultFrame("1", "done")), f.frames)
		x.saw(x.firstFate())
	}},
	// It is lost and resumed, and lost and resumed, while the request goes on.
	{name: "append-vs-reattach", random: true, endings: []string{"sent", "stored"}, script: func(x *explorer) {
		x.remember()
		s, g := x.open("s1"), x.gate("work", true)
		h, f := x.begun(g, s, "client")
		x.actor("handler", func() { _ = h.note(2) }, func() { _ = h.note(3) }, func() { _ = h.note(4) }, func() { h.finish("done") })
		x.actor("client", f.drop, f.backUnlessOver, f.drop, f.backUnlessOver)
		x.run()
		f.finish()
		require.Equal(x.t, noted(4, resultFrame("1", "done")), f.frames)
		x.saw(x.firstFate())
	}},
	// Of two that come for the same stream one is refused.
	{name: "two-readers", random: true, endings: []string{"client", "twin"}, script: func(x *explorer) {
		x.remember()
		s, g := x.open("s1"), x.gate("work", true)
		h, f := x.begun(g, s, "client")
		f.drop()
		twin := *f
		twin.name = "twin"
		var got []*follower
		came := 0
		come := func(f *follower) func() {
			return func() {
				came++
				if err := f.back(); err != nil {
					require.ErrorIs(x.t, err, resume.ErrStreamTaken)
					return
				}
				got = append(got, f)
			}
		}
		x.actor("handler", func() { _ = h.note(2) }, func() { _ = h.note(3) })
		x.actor("client", come(f))
		x.actor("twin", come(&twin))
		x.actorWhen("end", func() bool { return came == 2 }, func() { h.finish("done") })
		x.run()
		require.Len(x.t, got, 1)
		got[0].finish()
		said := 3 - int(x.counts()["notification/after_response"])
		require.Equal(x.t, noted(said, resultFrame("1", "done")), got[0].frames)
		x.saw(got[0].name)
	}},
	// Events are pushed out by those of another request while they are replayed: the
	// client gets what follows its last one, or it is told that it does not.
	{name: "eviction-vs-replay", limits: limits.Limits{MaxEvents: 3}, random: true, endings: []string{"all", "refused"}, script: func(x *explorer) {
		x.remember()
		s, g := x.open("s1"), x.gate("work", true)
		h, f := x.begun(g, s, "client")
		x.follow(s, "other", callFrame("2", "work"))
		other := g.next()
		f.drop()
		x.actor("handler", func() { _ = h.note(2) }, func() { _ = h.note(3) }, func() { h.finish("done") })
		x.actor("other", func() { _ = other.note(1) }, func() { _ = other.note(2) }, func() { other.finish("done") })
		x.actor("client", f.backUnlessOver)
		x.run()
		f.finish()
		want := noted(3, resultFrame("1", "done"))
		require.Equal(x.t, want[:len(f.frames)], f.frames, "no gap")
		if len(f.frames) == len(want) {
			x.saw("all")
		} else {
			x.saw("refused")
		}
	}},
	// The session is deleted while the stream is resumed and the request answers.
	{name: "delete-vs-replay", random: true, endings: []string{"kept", "dropped"}, script: func(x *explorer) {
		store := x.remember()
		s, g := x.open("s1"), x.gate("work", true)
		h, f := x.begun(g, s, "client")
		f.drop()
		x.actor("handler", func() { _ = h.note(2) }, func() { h.finish("done") })
		x.actor("client", func() {
			if err := f.back(); err != nil {
				require.ErrorIs(x.t, err, mcp.ErrClosed)
			}
		})
		x.actor("delete", func() { s.Close(mcp.CauseSessionDelete) })
		x.run()
		f.look()
		want := noted(2, resultFrame("1", "done"))
		require.Equal(x.t, want[:len(f.frames)], f.frames)
		<-f.ended
		<-s.Done()
		x.settle()
		require.True(x.t, store.empty(), "nothing is left behind")
		switch fate := x.firstFate(); fate {
		case "sent", "stored":
			x.saw("kept")
		default:
			require.Equal(x.t, "dropped session_gone", fate)
			x.saw("dropped")
		}
	}},
	// The handler closes the exchange while others speak for its request.
	{name: "close-vs-notify", random: true, endings: []string{"sent", "stored"}, script: func(x *explorer) {
		x.remember()
		s, g := x.open("s1"), x.gate("work", true)
		h, f := x.begun(g, s, "client")
		x.actor("helper", func() { _ = h.note(2) }, func() { _ = h.note(3) })
		x.actor("handler", func() {
			err := h.r.CloseStream(0)
			require.True(x.t, err == nil || errors.Is(err, mcp.ErrRequestDone), "%v", err)
		})
		x.actor("answer", func() { h.finish("done") })
		x.actorWhen("client", func() bool {
			select {
			case <-f.ended:
				return true
			default:
				return false
			}
		}, func() {
			f.look()
			f.backUnlessOver()
		})
		x.run()
		f.finish()
		said := 3 - int(x.counts()["notification/after_response"])
		require.Equal(x.t, noted(said, resultFrame("1", "done")), f.frames)
		x.saw(x.firstFate())
	}},
	// The client cancels a request whose exchange is lost: one end in any case.
	{name: "cancel-vs-loss", random: true, endings: []string{"sent", "stored"}, script: func(x *explorer) {
		x.remember()
		s, g := x.open("s1"), x.gate("work", true)
		h, f := x.begun(g, s, "client")
		x.actor("handler", func() { h.finish("done") })
		pause := func() {}
		x.actor("network", pause, pause, pause, f.drop)
		x.actor("client", func() {
			in, _ := inbound(httpConn, cancelFrame("1", ""))
			s.ReceiveOn(in, nil)
		})
		x.run()
		f.finish()
		require.Len(x.t, f.frames, 2)
		if f.frames[1] != resultFrame("1", "done") {
			hasError(x.t, f.frames[1], "1", mcp.CodeRequestCancelled, "")
		}
		x.saw(x.firstFate())
	}},
	// The session's own stream is resumed while a new one is opened: one of the two has
	// its place, and every notification is on exactly one stream.
	{name: "resume-vs-replace", random: true, endings: []string{"resumed", "replaced"}, script: func(x *explorer) {
		x.remember()
		s := x.open("s1")
		f := x.follow(s, "old", "")
		x.settle()
		f.look()
		f.drop()
		var own *exchange
		var fresh *follower
		x.actor("server", func() { x.say(s, 1) }, func() { x.say(s, 2) }, func() { x.say(s, 3) })
		x.actor("resume", f.backUnlessOver)
		x.actor("open", func() {
			own = x.newExchange(0, mcp.Legacy)
			if !s.Attach(own.stream) {
				return
			}
			fresh = &follower{x: x, s: s, name: "new", lost: own.stream.Lost, ended: own.done}
			fresh.sink = &parkingSink{scriptSink: &scriptSink{}, x: x, name: "new"}
			own.pump(fresh.sink)
		})
		x.run()
		f.finish()
		all := f.frames
		if fresh == nil {
			x.saw("resumed")
			f.drop()
		} else {
			x.saw("replaced")
			fresh.look()
			all = append(all, fresh.frames...)
			s.Detach(own.stream)
		}
		require.Len(x.t, all, 3-int(x.counts()["notification/closed_writer"]))
		for i := 1; i < len(all); i++ {
			require.Less(x.t, all[i-1], all[i], "in order, and each once")
		}
	}},
}

// say sends a numbered notification of the session's own.
func (x *explorer) say(s *Session, n int) {
	_ = s.Notify(context.Background(), fmt.Sprintf("notifications/%d", n), nil, "")
}
