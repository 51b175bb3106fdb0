package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A fuzzHandler is one call of a handler, which does what the script says.
type fuzzHandler struct {
	sc   *script
	tr   *fuzzTrace
	ctx  context.Context
	r    *Request
	todo chan byte
	gone bool // guarded by script.mu
}

// serve is the handler of every tool. The tool's name is the handler's temper.
func (sc *script) serve(ctx context.Context, r *Request) (mcp.Result, error) {
	h := &fuzzHandler{sc: sc, ctx: ctx, r: r, todo: make(chan byte, 8)}
	sc.mu.Lock()
	h.tr = sc.traces[r]
	if h.tr.refused || h.tr.returned || h.tr.started != 1 {
		sc.faultLocked("a handler was called that must not be: %s", h.tr)
	}
	sc.handlers = append(sc.handlers, h)
	sc.mu.Unlock()
	defer h.leave()
	sc.jitter()
	if cmd, ok := tempers[r.Name]; ok {
		if done, result, err := h.obey(cmd); done {
			return result, err
		}
	}
	if r.Name == "" { // initialize, ping
		return h.result()
	}
	done := ctx.Done()
	if r.Name == "stubborn" {
		done = nil
	}
	for {
		select {
		case cmd := <-h.todo:
			if done, result, err := h.obey(cmd); done {
				return result, err
			}
		case <-done:
			return h.unwind()
		}
	}
}

// tempers are what some tools do before they wait for the script.
var tempers = map[string]byte{
	"instant": doReturn, "error": doError, "bomb": doPanic, "exit": doGoexit, "shrapnel": doShrapnel,
	"asker": doAsk, "talker": doBurst, "closer": doClose,
}

var fuzzTools = []string{
	"gate", "stubborn", "tidy", "chatty", "rude", "brief", "narrow", "asker", "talker",
	"gate", "instant", "error", "bomb", "exit", "shrapnel", "closer",
}

// unwind is what a handler does when it is cancelled.
func (h *fuzzHandler) unwind() (mcp.Result, error) {
	switch h.r.Name {
	case "tidy":
		return h.result()
	case "chatty":
		h.notify("")
		return h.result()
	case "rude":
		h.sc.panics1()
		panic("cancelled")
	}
	return nil, context.Cause(h.ctx)
}

// What the script can tell a handler to do.
const (
	doReturn byte = iota
	doNotify
	doAsk
	doError
	doPanic
	doGoexit
	doShrapnel
	doProtocolError
	doBurst
	doKeyed
	doAskBriefly
	doAskTwice
	doLeaveBehind
	doClose
	doAbort
	doNotifyAside
	numTodo
)

func (h *fuzzHandler) obey(cmd byte) (done bool, result mcp.Result, err error) {
	switch cmd % numTodo {
	case doReturn:
		result, err = h.result()
		return true, result, err
	case doError:
		return true, nil, errors.New("as scripted")
	case doProtocolError:
		return true, nil, mcp.NewError(mcp.CodeInvalidParams, "as scripted")
	case doPanic:
		h.sc.panics1()
		panic("as scripted")
	case doAbort:
		h.sc.panics1()
		panic(http.ErrAbortHandler)
	case doGoexit:
		h.sc.panics1()
		runtime.Goexit()
	case doShrapnel:
		return true, &shrapnel{sc: h.sc}, nil
	case doNotify:
		h.notify("")
	case doKeyed:
		h.notify("key")
	case doBurst:
		for i := range 6 {
			h.notify([]string{"", "key"}[i%2])
		}
	case doAsk:
		h.ask(h.ctx)
	case doAskBriefly:
		ctx, cancel := context.WithTimeoutCause(h.ctx, time.Second, errAskTimeout)
		h.ask(ctx)
		cancel()
	case doAskTwice:
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { h.ask(h.ctx) })
		}
		wg.Wait()
	case doLeaveBehind:
		go func() {
			<-h.ctx.Done()
			h.notify("")
			h.ask(context.Background())
		}()
	case doNotifyAside: // while the handler goes on, and perhaps returns
		for range 2 {
			go func() {
				for range 4 {
					h.notify("")
				}
			}()
		}
	case doClose:
		if h.r.session != nil && h.r.session.stream != nil {
			h.sc.mu.Lock()
			h.tr.end.closed = append(h.tr.end.closed, mcp.CauseServerShutdown)
			h.sc.mu.Unlock()
			h.r.session.Close(mcp.CauseServerShutdown)
		}
	}
	return false, nil, nil
}

var errAskTimeout = errors.New("asked for too long")

func (h *fuzzHandler) result() (mcp.Result, error) {
	h.sc.mu.Lock()
	defer h.sc.mu.Unlock()
	h.sc.serial++
	text := fmt.Sprintf("result-%d.", h.sc.serial)
	h.tr.texts = append(h.tr.texts, text)
	return &textResult{Text: text}, nil
}

// shrapnel is a result whose marshaler panics.
type shrapnel struct {
	sc *script
	mcp.ResultMeta
}

// MarshalJSON panics.
func (s *shrapnel) MarshalJSON() ([]byte, error) {
	s.sc.panics1()
	panic("shrapnel")
}

func (sc *script) panics1() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.panics++
}

// leave checks what the handler has seen of its context.
func (h *fuzzHandler) leave() {
	h.sc.mu.Lock()
	defer h.sc.mu.Unlock()
	h.gone, h.tr.returned = true, true
	cause := context.Cause(h.ctx)
	if cause == nil {
		return
	}
	seen, _ := h.r.Cancellation()
	if seen == nil || cause != error(seen) {
		h.sc.faultLocked("I3: the cause of %s is %v, not %v", h.tr, cause, seen)
		return
	}
	if errors.Is(h.ctx.Err(), context.DeadlineExceeded) != (seen.Cause == mcp.CauseDeadline) {
		h.sc.faultLocked("I3: Err of %s is %v", h.tr, h.ctx.Err())
	}
}

// notify sends a notification and keeps the books of it.
func (h *fuzzHandler) notify(key string) {
	suppressed := h.r.verdict.outcome() != open
	h.sc.mu.Lock()
	h.sc.tried[mcp.NotificationProgress]++
	h.sc.mu.Unlock()
	began := time.Now()
	err := h.r.Notify(mcp.NotificationProgress, []byte(`{"progressToken":1,"progress":1}`), key)
	if took := time.Since(began); took > h.sc.core.limits.NotifyTimeout+fuzzPause {
		h.sc.fault("I12: a notification took %v", took)
	}
	if suppressed && !errors.Is(err, mcp.ErrRequestDone) {
		h.sc.fault("E18: a send of a settled request returned %v", err)
	}
}

// ask asks the client and checks how that ends.
func (h *fuzzHandler) ask(ctx context.Context) {
	s := h.r.session
	settled := h.r.verdict.outcome() != open
	h.sc.mu.Lock()
	h.sc.asking[s]++
	h.sc.mu.Unlock()
	result, err := h.r.Ask(ctx, "ping", nil)
	h.sc.mu.Lock()
	defer h.sc.mu.Unlock()
	h.sc.asking[s]--
	var refused *mcp.ClientError
	var cancelled *mcp.CancelError
	switch {
	case settled:
		if err == nil || errors.As(err, &refused) {
			h.sc.faultLocked("a settled request was answered by its client")
		}
	case h.r.Era == mcp.Modern:
		if !errors.Is(err, mcp.ErrNoBackChannel) {
			h.sc.faultLocked("B: a modern request was answered: %v", err)
		}
	case err == nil, errors.As(err, &refused):
		h.sc.answered++
		text := string(result)
		if refused != nil {
			text = refused.Message
		}
		if used, known := h.tr.end.told[text]; !known || used {
			h.sc.faultLocked("E17: %s got the client's answer %q, which was not for it", h.tr, text)
		}
		h.tr.end.told[text] = true
	case errors.As(err, &cancelled), errors.Is(err, errAskTimeout), errors.Is(err, mcp.ErrClosed),
		errors.Is(err, mcp.ErrPeerGone), errors.Is(err, mcp.ErrRequestDone):
	default:
		var overloaded *mcp.Error
		if !errors.As(err, &overloaded) {
			h.sc.faultLocked("B: an ask of %s ended with %v", h.tr, err)
		}
	}
}
