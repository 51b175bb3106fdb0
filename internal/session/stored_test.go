package session

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// This file has what the tests of streams need that can be resumed.

// A scriptStore is an event store in memory that fails or blocks as told.
type scriptStore struct {
	*resume.Memory
	mu      sync.Mutex
	scripts [resume.NumOperations][]func() error // one for each call, in order; then everything succeeds
	calls   [resume.NumOperations]int
	streams map[[2]string]bool // whose events were kept, by session and stream
	at      func(op string)    // nil does nothing
}

// remember gives the world an event store. It must be called first.
func (w *world) remember() *scriptStore {
	store := &scriptStore{Memory: resume.NewMemory()}
	w.core = New(Config{Dispatcher: w, Logger: slog.New(w.log), Limits: w.core.limits, Events: store})
	store.Bind(w.core.limits, w.core.ledger.limitReached)
	return store
}

func (s *scriptStore) on(op resume.Operation, steps ...func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[op] = append(s.scripts[op], steps...)
}

func (s *scriptStore) step(op resume.Operation) error {
	if s.at != nil {
		s.at("in " + op.String())
	}
	s.mu.Lock()
	s.calls[op]++
	script := s.scripts[op]
	if len(script) == 0 {
		s.mu.Unlock()
		return nil
	}
	s.scripts[op] = script[1:]
	s.mu.Unlock()
	return script[0]()
}

// Append implements EventStore.
func (s *scriptStore) Append(ctx context.Context, session string, e store.Event) error {
	if err := s.step(resume.OpAppend); err != nil {
		return err
	}
	s.mu.Lock()
	if s.streams == nil {
		s.streams = map[[2]string]bool{}
	}
	s.streams[[2]string{session, e.Stream}] = true
	s.mu.Unlock()
	return s.Memory.Append(ctx, session, e)
}

// After implements EventStore.
func (s *scriptStore) After(ctx context.Context, session, stream string, seq uint64) ([]store.Event, error) {
	if err := s.step(resume.OpReplay); err != nil {
		return nil, err
	}
	return s.Memory.After(ctx, session, stream, seq)
}

// Delete implements EventStore.
func (s *scriptStore) Delete(ctx context.Context, session string) error {
	if err := s.step(resume.OpDelete); err != nil {
		return err
	}
	return s.Memory.Delete(ctx, session)
}

// empty reports whether nothing is kept of the streams that were ever stored, and the store's
// own counters agree.
func (s *scriptStore) empty() bool { return s.kept() == 0 && s.Memory.Empty() }

// kept counts the sessions of which something is kept.
func (s *scriptStore) kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sessions := map[string]bool{}
	for key := range s.streams {
		if events, err := s.Memory.After(context.Background(), key[0], key[1], 0); err != nil || len(events) > 0 {
			sessions[key[0]] = true
		}
	}
	return len(sessions)
}

// eventPrefix is what the ids of the events of a stream begin with.
func eventPrefix(s *Session, stream string) string {
	sum := sha256.Sum256([]byte(s.id))
	return base32.HexEncoding.EncodeToString(sum[:20])[:10] + "-" + stream + "-"
}

// prefixOf is eventPrefix for a stream that has a log.
func prefixOf(st *stream.Stream) string { return strings.TrimSuffix(st.Log().(*resume.Log).ID(0), "0") }

// until blocks an operation until the channel is closed.
func until(c <-chan struct{}) func() error {
	return func() error { <-c; return nil }
}

// openAs is open for a client of some revision.
func (w *world) openAs(id string, version mcp.Version) *Session {
	w.t.Helper()
	s := w.open(id)
	s.Initialize(&Peer{Version: version})
	return s
}

// events returns what the client of the exchange has received so far: the event's
// id without the session's part, and the frame. A mark has no frame.
func (x *exchange) events() (all []string) {
	x.w.settle()
	x.sink.mu.Lock()
	defer x.sink.mu.Unlock()
	for _, e := range x.sink.sent {
		_, id, _ := strings.Cut(e.id, "-")
		text := strings.TrimSpace(id + " " + e.frame)
		if e.retry > 0 {
			text += fmt.Sprintf(" retry %v", e.retry)
		}
		all = append(all, text)
	}
	return all
}

// last returns the id of the last event that the client has received.
func (x *exchange) last() string {
	x.w.t.Helper()
	x.w.settle()
	x.sink.mu.Lock()
	defer x.sink.mu.Unlock()
	for _, e := range slices.Backward(x.sink.sent) {
		if e.id != "" {
			return e.id
		}
	}
	x.w.t.Fatal("the client has no event id")
	return ""
}

// A resumption is an exchange that goes on reading a stream.
type resumption struct {
	*exchange
	reader *resume.Reader
}

// resume goes on reading after an event, as the transport does.
func (w *world) resume(s *Session, lastEventID string) *resumption {
	w.t.Helper()
	x, err := w.resumeOn(&scriptSink{}, s, lastEventID)
	require.NoError(w.t, err)
	return x
}

func (w *world) resumeOn(sink *scriptSink, s *Session, lastEventID string) (*resumption, error) {
	r, err := s.Resume(w.t.Context(), lastEventID)
	if err != nil {
		return nil, err
	}
	x := &resumption{&exchange{w: w, stream: r.Stream(), sink: sink, done: make(chan struct{})}, r}
	go func() {
		defer close(x.done)
		defer r.Close()
		x.err = r.Pump(sink)
	}()
	return x, nil
}

// refused checks that the session does not resume after an event.
func (w *world) refused(s *Session, lastEventID string, want error) {
	w.t.Helper()
	_, err := w.resumeOn(&scriptSink{}, s, lastEventID)
	require.ErrorIs(w.t, err, want)
}

// vanish loses the exchange.
func (x *resumption) vanish() {
	x.w.t.Helper()
	x.w.settle()
	x.leave()
	require.True(x.w.t, x.ended())
}

// streaming brings a request into state R whose response is an event stream: the
// client has the mark and one notification.
func (w *world) streaming(s *Session, g *gate, id string) (*held, *exchange) {
	w.t.Helper()
	x := w.post(s, callFrame(id, "work"))
	h := g.next()
	h.note(1)
	require.Len(w.t, x.frames(), 1)
	return h, x
}

// forget lets a handler that was scripted anew be found.
func (w *world) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.routes, name)
}

// note sends a numbered notification on behalf of the request.
func (h *held) note(n int) error {
	return h.r.Notify(mcp.NotificationProgress, fmt.Appendf(nil, `{"n":%d}`, n), "")
}

// A sleepySink is a wire that shows signs of life, and becomes an event stream with
// the first.
type sleepySink struct{ *scriptSink }

func (k sleepySink) KeepAlive() error { return becomeEvents(k.scriptSink) }

// drowsy posts a request on an exchange that shows signs of life.
func (w *world) drowsy(s *Session, frame string) *exchange {
	w.t.Helper()
	x := w.newExchange(1, mcp.Legacy)
	x.pump(sleepySink{x.sink})
	w.postOn(x, s, frame)
	return x
}

// told returns the events from a stream's number and its frames: the first event has
// the number from.
func told(stream, from int, frames ...string) (events []string) {
	for i, f := range frames {
		events = append(events, strings.TrimSpace(fmt.Sprintf("%d-%d %s", stream, from+i, f)))
	}
	return events
}

const mark = ""

// keepAlive is the time until a sign of life.
const keepAlive = 15*time.Second + stream.QuickAnswer
