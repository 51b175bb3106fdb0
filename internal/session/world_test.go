package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A world is a core with scripted handlers and a scripted transport, inside a
// synctest bubble: time is virtual, and when the bubble ends no goroutine may be
// left.
type world struct {
	t    *testing.T
	core *Core
	log  *logRecorder

	mu       sync.Mutex
	handlers map[string]Handle
	routes   map[string]*Route
	notified func(*Inbound) // handles notifications; nil ignores them
}

// inWorld runs a test in a world of its own and checks the conservation law at its end.
func inWorld(t *testing.T, limits limits.Limits, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, limits)
		t.Cleanup(w.end) // also after a failure, or the bubble would not end
		test(w)
	})
}

func newWorld(t *testing.T, limits limits.Limits) *world {
	w := &world{t: t, log: &logRecorder{}, handlers: map[string]Handle{}, routes: map[string]*Route{}}
	w.core = New(Config{Dispatcher: w, Logger: slog.New(w.log), Limits: limits})
	return w
}

// end drains the core and checks what must hold at rest.
func (w *world) end() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = w.core.Shutdown(ctx)
	w.settle()
	w.conserved()
	for _, line := range w.log.lines() {
		require.NotContains(w.t, line, "invariant.broken")
	}
}

// shutdown begins to drain the core, as a signal does. deadline ends the drain;
// the channel brings what Shutdown returns.
func (w *world) shutdown() (deadline context.CancelFunc, done <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- w.core.Shutdown(ctx) }()
	w.settle()
	return cancel, result
}

// settle waits until every goroutine of the bubble is blocked.
func (w *world) settle() { synctest.Wait() }

// conserved checks invariant I4.
func (w *world) conserved() {
	w.t.Helper()
	snap := w.core.Snapshot()
	admitted, sent, stored, dropped := snap.Counters.Totals()
	require.Equal(w.t, admitted, sent+stored+dropped, "admitted = sent + stored + dropped")
	require.Empty(w.t, snap.Requests, "live requests")
	require.Empty(w.t, snap.Subscriptions, "subscriptions")
	require.Zero(w.t, w.core.subscriptions.waiting.Load(), "places of subscriptions")
	require.Empty(w.t, snap.Outbound, "outbound requests")
	var received, rejected, ignored uint64
	for _, n := range snap.Counters.Received {
		received += n
	}
	for _, n := range snap.Counters.Rejected {
		rejected += n
	}
	ignoredCancels := uint64(0)
	for _, i := range snap.Counters.Ignored {
		ignored += i.Count
		if i.Kind == mcp.IgnoredCancel {
			ignoredCancels += i.Count
		}
	}
	handled := snap.Counters.Received["notification"] - ignoredCancels
	var ignoredResponses uint64
	for _, i := range snap.Counters.Ignored {
		if i.Kind == mcp.IgnoredResponse {
			ignoredResponses += i.Count
		}
	}
	responses := snap.Counters.Received["response"] - ignoredResponses
	require.Equal(w.t, received, admitted+rejected+ignored+handled+responses, "every message is accounted for")
}

// counts are the core's counters that are not zero, by short names.
type counts map[string]uint64

func (w *world) counts() counts {
	c := counts{}
	add := func(name string, n uint64) {
		if n > 0 {
			c[name] += n
		}
	}
	k := w.core.Snapshot().Counters
	for _, s := range k.Series {
		add("admitted", s.Admitted)
		add("sent", s.Sent)
		add("stored", s.Stored)
		add("panics", s.Panics)
		for r, n := range s.Dropped {
			add("dropped/"+string(r), n)
		}
		for r, n := range s.Cancelled {
			add("cancelled/"+string(r), n)
		}
		for r, n := range s.Abandoned {
			add("abandoned/"+string(r), n)
		}
		for r, n := range s.TasksCancelled {
			add("task/"+string(r), n)
		}
	}
	for r, n := range k.Rejected {
		add("rejected/"+string(r), n)
	}
	for _, i := range k.Ignored {
		add("ignored/"+string(i.Kind)+"/"+string(i.Reason), i.Count)
	}
	for _, n := range k.NotificationsDropped {
		add("notification/"+string(n.Reason), n.Count)
	}
	for l, n := range k.LimitsReached {
		add("limit/"+l, n)
	}
	return c
}

// since returns what has been counted after an earlier moment.
func (c counts) since(before counts) counts {
	d := maps.Clone(c)
	for k, n := range before {
		if d[k] -= n; d[k] == 0 {
			delete(d, k)
		}
	}
	return d
}

// Route implements Dispatcher: a request is served by the handler of its target,
// or of its method.
func (w *world) Route(in *Inbound, _ *Session) *Route {
	key := in.Method
	if in.HasName {
		key = in.Name
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if rt := w.routes[key]; rt != nil {
		return rt
	}
	rt := &Route{Series: w.core.Series(in.Method, in.Name), Handle: w.handlers[key]}
	switch key {
	case "initialize":
		rt.Handshake, rt.BeforeInitialize = true, true
		if rt.Handle == nil {
			rt.Handle = initialize
		}
	case "ping":
		rt.BeforeInitialize = true
		rt.Handle = func(context.Context, *Request) (mcp.Result, error) { return &mcp.EmptyResult{}, nil }
	}
	if rt.Handle == nil {
		rt.Handle = func(context.Context, *Request) (mcp.Result, error) {
			return nil, mcp.NewError(mcp.CodeMethodNotFound, "no handler for %s", key)
		}
	}
	w.routes[key] = rt
	return rt
}

func initialize(_ context.Context, r *Request) (mcp.Result, error) {
	r.Session().Initialize(&Peer{Version: mcp.Version20251125})
	return &mcp.EmptyResult{}, nil
}

// Notify implements Dispatcher.
func (w *world) Notify(_ context.Context, in *Inbound, _ *Session) {
	w.mu.Lock()
	f := w.notified
	w.mu.Unlock()
	if f != nil {
		f(in)
	}
}

// Encode implements Dispatcher.
func (w *world) Encode(dst []byte, _ *Request, result mcp.Result) (_, rest []byte, err error) {
	dst, err = wire.Marshal(dst, result)
	return dst, nil, err
}

// textResult is the result of the scripted handlers.
type textResult struct {
	Text string `json:"text"`
	mcp.ResultMeta
}

// handle scripts a handler.
func (w *world) handle(name string, h Handle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[name] = h
}

// route scripts a whole route.
func (w *world) route(name string, change func(*Route)) {
	rt := &Route{Series: w.core.Series("tools/call", name), Handle: w.handlers[name]}
	change(rt)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routes[name] = rt
}

// A gate is a handler that a test holds in its hand.
type gate struct {
	w     *world
	calls chan *held
}

// held is one call of a gate's handler.
type held struct {
	ctx     context.Context
	r       *Request
	release chan func() (mcp.Result, error)
	// returned is closed when the handler has returned.
	returned chan struct{}
}

// gate scripts a handler that waits for the test. stubborn ones ignore their
// context; the others return its cause.
func (w *world) gate(name string, stubborn bool) *gate {
	g := &gate{w: w, calls: make(chan *held, 64)}
	w.handle(name, func(ctx context.Context, r *Request) (mcp.Result, error) {
		h := &held{ctx: ctx, r: r, release: make(chan func() (mcp.Result, error), 1), returned: make(chan struct{})}
		defer close(h.returned)
		g.calls <- h
		done := ctx.Done()
		if stubborn {
			done = nil
		}
		select {
		case f := <-h.release:
			return f()
		case <-done:
			return nil, context.Cause(ctx)
		}
	})
	return g
}

// next returns the next call that has reached the gate.
func (g *gate) next() *held {
	g.w.t.Helper()
	g.w.settle()
	select {
	case h := <-g.calls:
		return h
	default:
		g.w.t.Fatal("no handler has reached the gate")
		return nil
	}
}

// empty checks that no handler was called.
func (g *gate) empty() {
	g.w.t.Helper()
	g.w.settle()
	require.Empty(g.w.t, g.calls, "the handler must not be called")
}

func (h *held) finish(text string) {
	h.release <- func() (mcp.Result, error) { return &textResult{Text: text}, nil }
}

func (h *held) fail(err error) { h.release <- func() (mcp.Result, error) { return nil, err } }

func (h *held) panic(v any) { h.release <- func() (mcp.Result, error) { panic(v) } }

// do runs f on the handler's goroutine, which then goes on waiting; it does not
// wait for f.
func (h *held) cause() string {
	err := context.Cause(h.ctx)
	if err == nil || errors.Is(err, mcp.ErrRequestDone) { // released, not cancelled
		return ""
	}
	if c, ok := mcp.CauseOf(h.ctx); ok {
		return string(c)
	}
	return "not a cause: " + err.Error()
}

// A peer is the far end of a byte stream.
type peer struct {
	w    *world
	s    *Session
	sink *scriptSink
}

// connect opens a byte stream. Its legacy handshake is done if ready is set.
func (w *world) connect(ready bool) *peer {
	p := &peer{w: w, sink: &scriptSink{}}
	p.s = w.core.Connect(&Conn{Transport: "stdio", Network: "pipe"}, p.sink)
	if ready {
		p.s.Initialize(&Peer{Version: mcp.Version20251125})
		p.s.Initialized()
	}
	return p
}

// send feeds one frame, as the transport does.
func (p *peer) send(frame string) {
	p.w.t.Helper()
	in, bad := inbound(p.s.conn, frame)
	if bad != nil {
		p.s.Malformed(bad)
		return
	}
	p.s.Receive(in)
}

// inbound decodes a frame.
func inbound(conn *Conn, frame string) (*Inbound, *wire.Error) {
	env, err := wire.Decode([]byte(frame), wire.DefaultLimits())
	if err != nil {
		return nil, err.(*wire.Error)
	}
	in := &Inbound{Envelope: env, Conn: conn, Bytes: len(frame)}
	if env.Meta.HasProtocolVersion {
		in.Era, in.Version = mcp.Modern, mcp.Version(env.Meta.ProtocolVersion)
	}
	return in, nil
}

// call sends a legacy tools/call; id is JSON.
func (p *peer) call(id, tool string) { p.send(callFrame(id, tool)) }

func callFrame(id, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q}}`, id, tool)
}

// modernFrame is a modern tools/call.
func modernFrame(id, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, tool)
}

// cancel sends notifications/cancelled; id is JSON.
func (p *peer) cancel(id, reason string) { p.send(cancelFrame(id, reason)) }

func cancelFrame(id, reason string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":%q}}`, id, reason)
}

// eof closes the peer's sending side; the teardown goes on in the background.
func (p *peer) eof() { go p.s.EOF() }

// frames returns what the peer has received so far.
func (p *peer) frames() []string {
	p.w.settle()
	return p.sink.frames()
}

// An exchange is one HTTP POST (or the GET stream) as the core sees it.
type exchange struct {
	w      *world
	stream *stream.Stream
	sink   *scriptSink
	err    error         // what Pump has returned
	over   time.Time     // when it has
	done   chan struct{} // closed then
}

// open opens a legacy HTTP session whose handshake is done.
func (w *world) open(id string) *Session {
	w.t.Helper()
	s, reason, err := w.core.Open(httpConn, id)
	require.Nil(w.t, err, "%v", reason)
	s.Initialize(&Peer{Version: mcp.Version20251125})
	s.Initialized()
	return s
}

var httpConn = &Conn{Transport: "http", Network: "tcp", Protocol: "http", ProtocolVersion: "1.1"}

// post sends one request by HTTP: to a legacy session, or a modern one if s is nil.
func (w *world) post(s *Session, frame string) *exchange {
	w.t.Helper()
	in, bad := inbound(httpConn, frame)
	require.Nil(w.t, bad)
	x := w.newExchange(1, in.Era)
	if s == nil {
		w.core.Receive(in, x.stream)
	} else {
		s.ReceiveOn(in, x.stream)
	}
	x.pump(x.sink)
	return x
}

// get opens the session's own stream.
func (w *world) get(s *Session) (*exchange, bool) {
	x := w.newExchange(0, mcp.Legacy)
	ok := s.Attach(x.stream)
	if !ok {
		x.stream.Fail(mcp.DropClosedWriter)
	}
	x.pump(x.sink)
	return x, ok
}

func (w *world) exchange(answers int, era mcp.Era) *exchange {
	x := w.newExchange(answers, era)
	x.pump(x.sink)
	return x
}

func (w *world) newExchange(answers int, era mcp.Era) *exchange {
	x := &exchange{w: w, sink: &scriptSink{}, done: make(chan struct{})}
	x.stream = w.core.Exchange(httpConn, answers, era)
	return x
}

// pump starts the exchange's writer.
func (x *exchange) pump(sink stream.Sink) {
	go func() {
		defer close(x.done)
		x.err = x.stream.Pump(sink)
		x.over = time.Now()
	}()
}

// leave is the client hanging up, and the writer that learns of it: at once, if no quick
// answer is expected any more.
func (x *exchange) leave() {
	x.w.settle()
	if x.stream.Quick() {
		time.Sleep(stream.QuickAnswer)
	}
	x.sink.leave()
	x.w.settle()
}

// frames returns what the client of the exchange has received so far.
func (x *exchange) frames() []string {
	x.w.settle()
	return x.sink.frames()
}

// ended reports whether the exchange is over.
func (x *exchange) ended() bool {
	x.w.settle()
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// A logRecorder keeps the level and the key of each record.
type logRecorder struct {
	mu      sync.Mutex
	records []string
	details []string // the same with the attributes
}

func (l *logRecorder) Enabled(context.Context, slog.Level) bool { return true }

func (l *logRecorder) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r.Level.String()+" "+r.Message)
	detail := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		detail += " " + a.String()
		return true
	})
	l.details = append(l.details, detail)
	return nil
}

// forget drops the records of what a test has provoked on purpose.
func (l *logRecorder) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records, l.details = nil, nil
}

func (l *logRecorder) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *logRecorder) WithGroup(string) slog.Handler { return l }

func (l *logRecorder) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records)
}

// loggedWith checks that a record was written that also has the given texts.
func (w *world) loggedWith(want string, texts ...string) {
	w.t.Helper()
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	require.True(w.t, slices.ContainsFunc(w.log.details, func(line string) bool {
		return strings.HasPrefix(line, want) && !slices.ContainsFunc(texts, func(text string) bool {
			return !strings.Contains(line, text)
		})
	}), "%s with %q in %q", want, texts, w.log.details)
}

// times counts the records of one kind.
func (w *world) times(record string) (n int) {
	for _, line := range w.log.lines() {
		if line == record {
			n++
		}
	}
	return n
}

// logged checks that a record was written.
func (w *world) logged(want string) {
	w.t.Helper()
	require.Contains(w.t, w.log.lines(), want)
}

// frame helpers for expectations.

func resultFrame(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"text":%q}}`, id, text)
}

// hasError checks that a frame is an error answer with this id, code and reason.
func hasError(t *testing.T, frame, id string, code mcp.Code, reason string) {
	t.Helper()
	head := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,`, id, code)
	if id == "" {
		head = fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":%d,`, code)
	}
	require.True(t, strings.HasPrefix(frame, head), "%s does not start with %s", frame, head)
	if reason != "" {
		require.Contains(t, frame, fmt.Sprintf(`"reason":%q`, reason))
	}
}
