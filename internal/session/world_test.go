package session

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
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
	require.Zero(w.t, w.core.callers.Len(), "records of callers")
	for _, budget := range []*share.Bytes{w.core.output.Budget, w.core.bodies, w.core.values} {
		bytes, callers := budget.Used()
		require.Zero(w.t, bytes+int64(callers), "bytes that nobody has given back")
	}
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

// pools returns the pools of which nothing is held at rest.
func (c *Core) pools() map[string]*share.Pool {
	return map[string]*share.Pool{
		"slots": c.slots, "slots for control": c.control, "subscriptions": c.subscriptions, "detached work": c.running,
	}
}

// conserved checks invariant I4.
func (w *world) conserved() {
	w.t.Helper()
	snap := w.core.Snapshot()
	admitted, sent, stored, dropped := snap.Counters.Totals()
	require.Equal(w.t, admitted, sent+stored+dropped, "admitted = sent + stored + dropped")
	var total, expired, waiting uint64
	for _, series := range snap.Counters.Series {
		total += series.Stored
	}
	for _, n := range snap.Counters.ResponsesExpired {
		expired += n
	}
	for _, s := range snap.Sessions {
		waiting += uint64(s.Stored)
	}
	require.Equal(w.t, total, snap.Counters.ResponsesFetched+expired+waiting, "stored = fetched + expired + waiting")
	require.Empty(w.t, snap.Requests, "live requests")
	require.Empty(w.t, snap.Subscriptions, "subscriptions")
	for name, p := range w.core.pools() {
		require.Zero(w.t, p.Usage().Used, name)
	}
	require.Zero(w.t, w.core.turns.Usage().Used, "turns")
	require.Empty(w.t, snap.Outbound, "outbound requests")
	var received, rejected, ignored uint64
	for _, n := range snap.Counters.Received {
		received += n
	}
	for _, n := range snap.Counters.Rejected {
		rejected += n
	}
	ignoredCancels := uint64(0)
	for i, n := range snap.Counters.Ignored {
		ignored += n
		if i.Kind == mcp.IgnoredCancel {
			ignoredCancels += n
		}
	}
	handled := snap.Counters.Received["notification"] - ignoredCancels
	var ignoredResponses uint64
	for i, n := range snap.Counters.Ignored {
		if i.Kind == mcp.IgnoredResponse {
			ignoredResponses += n
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
		for r, n := range CancelledBy(s.Cancelled) {
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
	for i, n := range k.Ignored {
		add("ignored/"+string(i.Kind)+"/"+string(i.Reason), n)
	}
	for d, n := range k.NotificationsDropped {
		add("notification/"+string(d.Reason), n)
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
		rt.Handshake, rt.BeforeInitialize, rt.Control = true, true, true
		if rt.Handle == nil {
			rt.Handle = initialize
		}
	case "ping":
		rt.BeforeInitialize, rt.Control = true, true
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
