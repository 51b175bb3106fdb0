// Package sessiontest has a stand-in for package server, for tests of what carries
// messages to the session core.
package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Fake stands in for the server: a core whose tool calls do what their name says.
//
//	echo      answers with params.name
//	progress  sends params.name notifications, then answers
//	step      sends a notification and waits for the test, twice, then answers
//	wait      waits for its context or the test, then answers
//	ask       answers with what the client says to roots/list
//	fail      answers with the error code in params.name
//	print     prints to standard output, as nobody should
//	initialize, ping
type Fake struct {
	t    *testing.T
	Core *session.Core

	Started chan struct{} // a handler of step or wait has begun
	Release chan struct{} // lets one go on
	Ended   chan error    // the cause, when one returns
	Routes  map[string]*session.Route
}

// New returns a Fake whose core logs to the one logger that is given, if any.
func New(t *testing.T, limits limits.Limits, logger ...*slog.Logger) *Fake {
	return NewOf(t, session.Config{Logger: append(logger, slog.New(slog.DiscardHandler))[0], Limits: limits})
}

// NewOf returns a Fake whose core is made of cfg.
func NewOf(t *testing.T, cfg session.Config) *Fake {
	f := &Fake{
		t: t, Started: make(chan struct{}, 100), Release: make(chan struct{}), Ended: make(chan error, 100),
		Routes: map[string]*session.Route{},
	}
	cfg.Dispatcher = f
	f.Core = session.New(cfg)
	for name, handle := range map[string]session.Handle{
		"tools/call": f.handle, "initialize": f.initialize, "ping": f.handle, "": f.handle,
	} {
		f.Routes[name] = &session.Route{
			Series: f.Core.Series(name, ""), Handle: handle, BeforeInitialize: name != "tools/call",
			Handshake: name == "initialize",
		}
	}
	return f
}

// StrayPrint is what the method print prints.
const StrayPrint = "a stray print"

// A Text is a result.
type Text struct {
	mcp.ResultMeta
	Text string
}

// Route implements session.Dispatcher.
func (f *Fake) Route(in *session.Inbound, _ *session.Session) *session.Route {
	if rt := f.Routes[in.Method]; rt != nil {
		return rt
	}
	return f.Routes[""].Refuse(mcp.NewError(mcp.CodeMethodNotFound, "no such method"))
}

// Notify implements session.Dispatcher.
func (f *Fake) Notify(context.Context, *session.Inbound, *session.Session) {}

// Encode implements session.Dispatcher.
func (f *Fake) Encode(dst []byte, _ *session.Request, result mcp.Result) (_, rest []byte, err error) {
	return fmt.Appendf(dst, `{"text":%q}`, result.(*Text).Text), nil, nil
}

func (f *Fake) initialize(_ context.Context, r *session.Request) (mcp.Result, error) {
	if r.Name == "fail" || strings.Contains(string(r.Params), "fail") {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "not you")
	}
	r.Session().Initialize(&session.Peer{Version: mcp.Version20251125})
	return &Text{Text: "welcome"}, nil
}

// AgreeOn makes initialize agree on a revision.
func (f *Fake) AgreeOn(v mcp.Version) {
	f.Routes["initialize"].Handle = func(_ context.Context, r *session.Request) (mcp.Result, error) {
		r.Session().Initialize(&session.Peer{Version: v})
		return &Text{Text: "welcome"}, nil
	}
}

func (f *Fake) handle(ctx context.Context, r *session.Request) (mcp.Result, error) {
	what, n, _ := strings.Cut(r.Name, ":")
	switch what {
	case "print":
		fmt.Println(StrayPrint)
	case "progress":
		for i := range len(n) {
			if err := r.Notify("notifications/progress", fmt.Appendf(nil, `{"n":%d}`, i), ""); err != nil {
				return nil, err
			}
		}
	case "step":
		for i := range 2 {
			if err := r.Notify("notifications/progress", fmt.Appendf(nil, `{"n":%d}`, i), ""); err != nil {
				return nil, err
			}
			f.Started <- struct{}{}
			<-f.Release
		}
	case "wait":
		f.Started <- struct{}{}
		select {
		case <-ctx.Done():
		case <-f.Release:
		}
		f.Ended <- context.Cause(ctx)
	case "ask":
		reply, err := r.Ask(ctx, "roots/list", nil)
		if err != nil {
			return nil, mcp.NewError(mcp.CodeInternalError, "%v", err)
		}
		return &Text{Text: string(reply)}, nil
	case "fail":
		var code mcp.Code
		_, _ = fmt.Sscan(n, &code)
		if code == 0 {
			return nil, errors.New("secret")
		}
		return nil, mcp.NewError(code, "failed")
	}
	return &Text{Text: r.Name}, nil
}

// Conserved shuts the core down and checks that no answer was lost from the books.
func (f *Fake) Conserved() session.Counters {
	f.t.Helper()
	if err := f.Core.Shutdown(context.Background()); err != nil {
		f.t.Errorf("shutdown: %v", err)
	}
	snap := f.Core.Snapshot()
	if n, m := len(snap.Requests), len(snap.Sessions); n+m > 0 {
		f.t.Errorf("%d requests and %d sessions are left", n, m)
	}
	if admitted, sent, stored, dropped := snap.Counters.Totals(); admitted != sent+stored+dropped {
		f.t.Errorf("admitted %d, but sent %d, stored %d, dropped %d", admitted, sent, stored, dropped)
	}
	return snap.Counters
}

// Dropped returns how many answers were dropped for a reason.
func Dropped(c session.Counters, reason mcp.DropReason) (n uint64) {
	for _, s := range c.Series {
		n += s.Dropped[reason]
	}
	return n
}
