package session

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestRandomResumption lets clients lose their connections and come back, at random,
// while handlers speak, sessions end and the store forgets or fails. The oracle is what
// each client sees: every event once and in order, and nobody else's.
func TestRandomResumption(t *testing.T) {
	if *resumptionSeed != 0 {
		roam(t, *resumptionSeed)
		return
	}
	n := 400
	if needs.Short(t, "session/most random resumptions") {
		n = 100
	}
	for range n {
		roam(t, rand.Uint64())
	}
}

var resumptionSeed = flag.Uint64("resumption.seed", 0, "the one seed of TestRandomResumption")

func roam(t *testing.T, seed uint64) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Fatalf("replay with -args -resumption.seed=%d", seed)
		}
	}()
	rnd := rand.New(rand.NewPCG(seed, 2))
	limits := limits.Limits{RequestTimeout: time.Hour, MaxRequestTimeout: time.Hour, MaxSessions: 4}
	o := &outing{rnd: rnd, lossless: rnd.IntN(2) == 0}
	if !o.lossless {
		limits.MaxEvents, limits.MaxEventBytesTotal = 2+rnd.IntN(20), 2000+rnd.IntN(20000)
		if rnd.IntN(2) == 0 {
			limits.OrphanGrace = time.Duration(1+rnd.IntN(50)) * time.Millisecond
		}
	}
	synctest.Test(t, func(t *testing.T) {
		o.world = newWorld(t, limits)
		o.store = o.remember()
		if rnd.IntN(3) == 0 { // the default store says what it deletes
			o.core = New(Config{Dispatcher: o.world, Logger: slog.New(o.log), Limits: limits, Events: o.store.Memory})
		}
		o.core.hooks = func(point, *Request) { o.jitter() }
		o.store.at = func(string) { o.jitter() }
		t.Cleanup(o.end)
		o.run()
	})
}

// An outing is one random run.
type outing struct {
	*world
	store    *scriptStore
	lossless bool // nothing is evicted, and the store does not fail

	mu    sync.Mutex // guards rnd
	rnd   *rand.Rand
	trips []*trip
	n     int // of sessions and requests
	// spoken numbers what sessions say by themselves.
	spoken atomic.Int64
}

func (o *outing) dice(n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rnd.IntN(n)
}

func (o *outing) jitter() {
	if o.dice(3) == 0 {
		time.Sleep(time.Duration(o.dice(40)) * time.Microsecond)
	}
}

// A trip is one stream and its client.
type trip struct {
	o      *outing
	s      *Session
	todo   chan func(r *Request) bool // what the handler does; true if it returns
	own    bool                       // the session's own stream
	said   atomic.Int64               // notifications that were not refused
	sink   *roughSink
	lost   func()
	before []func() // of the exchanges that came before
	ended  chan struct{}
	prefix string
	seq    int
	seen   []int // the notifications that the client has seen
	id     int   // of the request
	over   bool  // the client has given up
}

// A roughSink is a wire that takes its time, and breaks now and then.
type roughSink struct {
	*scriptSink
	o    *outing
	dead atomic.Bool
}

func (k *roughSink) step() error {
	k.o.jitter()
	if k.dead.Load() || k.o.dice(60) == 0 {
		k.dead.Store(true)
		return &stream.WriteError{Reason: mcp.DropBrokenPeer, Err: errReset}
	}
	return nil
}

func (k *roughSink) Write(m *stream.Message) error {
	if err := k.step(); err != nil {
		return err
	}
	return k.scriptSink.Write(m)
}

func (k *roughSink) Flush() error {
	if err := k.step(); err != nil {
		return err
	}
	return k.scriptSink.Flush()
}

func (o *outing) newSink() *roughSink { return &roughSink{scriptSink: &scriptSink{}, o: o} }

// set posts a request, or opens the session's own stream.
func (o *outing) set(s *Session, own bool) {
	tr := &trip{o: o, s: s, own: own, sink: o.newSink(), todo: make(chan func(*Request) bool, 100)}
	e := o.newExchange(1, mcp.Legacy)
	if own {
		e = o.newExchange(0, mcp.Legacy)
		if !s.Attach(e.stream) {
			return
		}
	} else {
		o.n++
		tool := fmt.Sprint("tool", o.n)
		o.handle(tool, func(ctx context.Context, r *Request) (mcp.Result, error) {
			for {
				select {
				case f := <-tr.todo:
					if f(r) {
						return &textResult{Text: tool}, nil
					}
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
		})
		tr.id = o.n
		o.postOn(e, s, callFrame(strconv.Itoa(o.n), tool))
	}
	tr.lost, tr.ended = e.stream.Lost, make(chan struct{})
	sink, ended := tr.sink, tr.ended
	go func() {
		defer close(ended)
		_ = e.stream.Pump(sink)
		if own {
			s.Detach(e.stream)
		}
	}()
	o.trips = append(o.trips, tr)
}

// look takes in a part of what has arrived, or all of it.
func (tr *trip) look(all bool) {
	tr.sink.mu.Lock()
	defer tr.sink.mu.Unlock()
	t := tr.o.t
	n := len(tr.sink.sent)
	if !all {
		n = tr.o.dice(n + 1)
	}
	for _, e := range tr.sink.sent[:n] {
		if e.id != "" {
			i := strings.LastIndexByte(e.id, '-')
			if tr.prefix == "" {
				tr.prefix = e.id[:i+1]
			}
			seq, _ := strconv.Atoi(e.id[i+1:])
			require.Equal(t, tr.prefix, e.id[:i+1], "another stream's event")
			require.True(t, seq > tr.seq || e.frame == "" && seq == tr.seq, "event %d after %d", seq, tr.seq)
			tr.seq = seq
		}
		switch _, n, isNote := strings.Cut(e.frame, `{"n":`); {
		case e.frame == "":
		case isNote:
			k, _ := strconv.Atoi(strings.TrimRight(n, "}"))
			if tr.own {
				require.True(t, len(tr.seen) == 0 || k > tr.seen[len(tr.seen)-1], "%d after %v", k, tr.seen)
			} else {
				require.Equal(t, len(tr.seen)+1, k, "no gap, and each once: %v", tr.seen)
			}
			tr.seen = append(tr.seen, k)
		default:
			require.True(t, strings.HasPrefix(e.frame, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, tr.id)), "another request's answer: %s", e.frame)
			tr.over = true
		}
	}
	tr.sink.sent = tr.sink.sent[n:]
}

// drop loses the connection; the client may have missed a part of what was sent.
func (tr *trip) drop() {
	tr.look(false)
	tr.sink.dead.Store(true)
	tr.lost()
}

// back comes again.
func (tr *trip) back() error {
	r, err := tr.s.Resume(context.Background(), tr.prefix+strconv.Itoa(tr.seq))
	if err != nil {
		return err
	}
	before := tr.lost
	tr.sink, tr.lost, tr.ended = tr.o.newSink(), r.Lost, make(chan struct{})
	tr.before = append(tr.before, before)
	sink, ended := tr.sink, tr.ended
	go func() {
		defer close(ended)
		defer r.Close()
		_ = r.Pump(sink)
	}()
	return nil
}

// ill are the ways in which coming back may fail; all but the first are the end of it.
func (tr *trip) ill(err error) bool {
	require.True(tr.o.t, errors.Is(err, resume.ErrStreamTaken) || errors.Is(err, resume.ErrEventUnknown) ||
		errors.Is(err, mcp.ErrClosed) || errors.Is(err, errStore), "%v", err)
	return !errors.Is(err, resume.ErrStreamTaken) && !errors.Is(err, errStore)
}

// tell has the request say something, or do something.
func (tr *trip) tell() {
	what := tr.o.dice(12)
	if tr.own {
		n := tr.o.spoken.Add(1) // on whichever stream the session has
		_ = tr.s.Notify(context.Background(), "notifications/x", fmt.Appendf(nil, `{"n":%d}`, n), "")
		return
	}
	f := func(r *Request) bool {
		for range 1 + tr.o.dice(4) {
			n := tr.said.Add(1)
			if r.Notify(mcp.NotificationProgress, fmt.Appendf(nil, `{"n":%d}`, n), "") != nil {
				tr.said.Add(-1)
			}
		}
		return false
	}
	switch what {
	case 0:
		f = func(*Request) bool { return true }
	case 1:
		f = func(r *Request) bool { _ = r.CloseStream(0); return false }
	}
	select {
	case tr.todo <- f:
	default:
	}
}

// someTrip returns a stream whose client has not got all, if there is one.
func (o *outing) someTrip() *trip {
	var under []*trip
	for _, tr := range o.trips {
		if !tr.over {
			under = append(under, tr)
		}
	}
	if len(under) == 0 {
		return nil
	}
	return under[o.dice(len(under))]
}

func (o *outing) run() {
	var sessions []*Session
	versions := []mcp.Version{mcp.Version20251125, mcp.Version20251125, mcp.Version20250618, mcp.Version20250326}
	for range 100 + o.dice(200) {
		if len(sessions) == 0 || len(sessions) < 3 && o.dice(10) == 0 {
			o.n++
			sessions = append(sessions, o.openAs(fmt.Sprint("session", o.n), versions[o.dice(4)]))
		}
		i := o.dice(len(sessions))
		tr := o.someTrip()
		switch what := o.dice(32); {
		case tr == nil || what < 2:
			o.set(sessions[i], o.dice(4) == 0)
		case what < 12:
			tr.tell()
		case what < 17:
			tr.drop()
		case what < 26:
			tr.look(o.dice(2) == 0)
			if !tr.over {
				if err := tr.back(); err != nil {
					tr.ill(err)
				}
			}
		case what == 26: // late, from an exchange that was lost before
			for _, lost := range tr.before {
				lost()
			}
		case what == 27 && !o.lossless && o.dice(4) == 0:
			sessions[i].Close(mcp.CauseSessionDelete)
			sessions = slices.Delete(sessions, i, i+1)
		case what == 28 && !o.lossless && o.dice(4) == 0:
			o.store.on(resume.Operation(o.dice(int(resume.OpDelete))), func() error { return errStore })
		default:
			time.Sleep(time.Duration(o.dice(200)) * time.Microsecond)
		}
	}
	o.home()
}

// home lets every request end and every client come back until it has all there is.
func (o *outing) home() {
	o.store.mu.Lock()
	o.store.scripts = [resume.NumOperations][]func() error{}
	o.store.mu.Unlock()
	for _, tr := range o.trips {
		if !tr.own {
			tr.todo <- func(*Request) bool { return true }
		}
	}
	time.Sleep(time.Second)
	for _, tr := range o.trips {
		for range 300 { // a rough wire may lose each event of a stream
			o.settle()
			tr.look(true)
			live := true
			select {
			case <-tr.ended:
				live = false
			default:
			}
			if tr.over || live || tr.prefix == "" {
				break
			}
			if err := tr.back(); err != nil && tr.ill(err) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		o.judge(tr)
	}
	for _, s := range o.core.allSessions() {
		s.Close(mcp.CauseSessionDelete)
	}
	time.Sleep(time.Second)
	o.settle()
	require.True(o.t, o.store.empty(), "nothing outlives its session")
}

// judge checks what a client has seen when there is nothing more to be had.
func (o *outing) judge(tr *trip) {
	if !o.lossless || tr.prefix == "" || tr.own {
		return // it may have missed something, for which there was a reason
	}
	require.True(o.t, tr.over, "request %d has no answer: seen %v of %d", tr.id, tr.seen, tr.said.Load())
	require.Len(o.t, tr.seen, int(tr.said.Load()), "request %d: %v", tr.id, tr.seen)
}
