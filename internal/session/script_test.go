package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file has the scripted handlers that bring a request into a state of the
// matrix: M (layers), B (asker), P (sender); S is held with stopAt.

// inner returns the handler of a name, to be wrapped.
func (w *world) inner(name string) Handle {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handlers[name]
}

// A trail notes what middleware sees.
type trail struct {
	mu    sync.Mutex
	steps []string
}

func (t *trail) add(step string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, step)
}

func (t *trail) get() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.steps
}

// layers puts two layers of middleware around a handler. Both note the cause that
// they see when it has returned; the outer one turns any error into a result.
func (w *world) layers(name string) *trail {
	t, handler := &trail{}, w.inner(name)
	layer := func(layer string, next Handle) Handle {
		return func(ctx context.Context, r *Request) (mcp.Result, error) {
			result, err := next(ctx, r)
			cause, _ := mcp.CauseOf(ctx)
			t.add(layer + ":" + string(cause))
			if layer == "outer" && err != nil {
				return &textResult{Text: "mended"}, nil
			}
			return result, err
		}
	}
	w.handle(name, layer("outer", layer("inner", handler)))
	return t
}

// An askResult is what a call of ours has come to.
type askResult struct {
	result jsontext.Value
	err    error
}

// An asker is a gate whose handler asks the client before it comes to the gate.
type asker struct {
	*gate
	asking  chan *held     // handlers that are about to ask; only ctx and r are set
	answers chan askResult // what Ask has returned
}

func (w *world) asker(name string, stubborn bool) *asker {
	a := &asker{gate: w.gate(name, stubborn), asking: make(chan *held, 64), answers: make(chan askResult, 64)}
	handler := w.inner(name)
	w.handle(name, func(ctx context.Context, r *Request) (mcp.Result, error) {
		a.asking <- &held{ctx: ctx, r: r}
		result, err := r.Ask(ctx, "roots/list", nil)
		a.answers <- askResult{result, err}
		return handler(ctx, r)
	})
	return a
}

// blocked returns the next handler that waits for the client.
func (a *asker) blocked() *held {
	a.w.t.Helper()
	a.w.settle()
	require.NotEmpty(a.w.t, a.asking, "no handler asks")
	require.Empty(a.w.t, a.answers, "Ask has returned")
	return <-a.asking
}

// answer returns what the next Ask has returned.
func (a *asker) answer() askResult {
	a.w.t.Helper()
	a.w.settle()
	require.NotEmpty(a.w.t, a.answers, "Ask has not returned")
	return <-a.answers
}

// askFrame and unaskFrame are our request to the client and its courtesy cancel.
func askFrame(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"roots/list"}`, id)
}

func unaskFrame(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
}

func replyFrame(id, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// A sender is a gate whose handler sends notifications before it comes to the gate.
type sender struct {
	*gate
	sending chan *held // handlers that are about to send; only ctx and r are set
	sent    chan error // what each Notify has returned
}

func (w *world) sender(name string, n int) *sender {
	s := &sender{gate: w.gate(name, false), sending: make(chan *held, 64), sent: make(chan error, 64)}
	handler := w.inner(name)
	w.handle(name, func(ctx context.Context, r *Request) (mcp.Result, error) {
		s.sending <- &held{ctx: ctx, r: r}
		for i := range n {
			s.sent <- r.Notify(mcp.NotificationProgress, fmt.Appendf(nil, `{"n":%d}`, i+1), "")
		}
		return handler(ctx, r)
	})
	return s
}

// blocked returns the handler whose n-th notification waits for room.
func (s *sender) blocked(n int) *held {
	s.w.t.Helper()
	s.w.settle()
	for range n - 1 {
		require.NotEmpty(s.w.t, s.sent, "an earlier notification waits")
		require.NoError(s.w.t, <-s.sent)
	}
	require.Empty(s.w.t, s.sent, "the notification does not wait")
	return <-s.sending
}

// result returns what the next Notify has returned.
func (s *sender) result() error {
	s.w.t.Helper()
	s.w.settle()
	require.NotEmpty(s.w.t, s.sent, "Notify has not returned")
	return <-s.sent
}

func noteFrame(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":%d}}`, n)
}

// A stop holds the requests of one tool at a yield point.
type stop struct {
	w       *world
	reached chan *Request
	free    chan struct{}
}

// stopAt must be called before the first request.
func (w *world) stopAt(at point, tool string) *stop {
	s := &stop{w: w, reached: make(chan *Request, 64), free: make(chan struct{})}
	others := w.core.hooks
	w.core.hooks = func(p point, r *Request) {
		others.at(p, r)
		if p == at && r.Name == tool {
			s.reached <- r
			<-s.free
		}
	}
	w.t.Cleanup(func() { s.release() }) // a test that fails must end too
	return s
}

// await returns the request that has reached the point.
func (s *stop) await() *Request {
	s.w.t.Helper()
	s.w.settle()
	require.NotEmpty(s.w.t, s.reached, "no request has reached the point")
	return <-s.reached
}

// release lets all requests pass, until again is called.
func (s *stop) release() {
	select {
	case <-s.free:
	default:
		close(s.free)
	}
	s.w.settle()
}

func (s *stop) again() { s.free = make(chan struct{}) }

// tell posts a notification or a response to a legacy HTTP session.
func (w *world) tell(s *Session, frame string) {
	w.t.Helper()
	in, bad := inbound(httpConn, frame)
	require.Nil(w.t, bad)
	s.ReceiveOn(in, nil)
}

// inTurn plays one verdict after the other for the same write.
func inTurn(verdicts ...verdictFunc) verdictFunc {
	return func(k *scriptSink) error {
		for _, v := range verdicts {
			if err := v(k); err != nil {
				return err
			}
		}
		return nil
	}
}

// small makes a stream's queue so short that the third notification blocks while
// the first is being written.
var small = limits.Limits{MaxQueuedMessages: 1, NotifyTimeout: 1 << 40}

// oneSlot lets a session run one handler at a time.
var oneSlot = limits.Limits{MaxInFlight: 1}

// but returns the counters without one that depends on the scheduler: whether a
// notification before the last finds the queue full for a moment.
func (c counts) but(name string) counts {
	delete(c, name)
	return c
}

// cancelled returns the cause for which a request was cancelled, also after its end.
func (h *held) cancelled() string {
	if c, _ := h.r.Cancellation(); c != nil {
		return string(c.Cause)
	}
	return ""
}

// clear forgets the records.
func (l *logRecorder) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records, l.details = nil, nil
}
