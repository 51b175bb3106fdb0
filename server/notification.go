package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// A NotificationHandler handles the notifications of one name. P is decoded from the params, as for
// a [MethodHandler]. A notification that does not fit P is logged at level debug and ignored.
//
// It is called before the next message of the same connection is read, so that it must be quick and
// must not wait for that client. The server's middlewares wrap it ([WithMiddleware]). Their request
// has no ID, and an error is only logged.
type NotificationHandler[P any] func(ctx context.Context, n *Notice, params P)

// AddNotification registers the handler of a notification of the program, or replaces the handler
// for that name. name is what clients send, as in "notifications/com.example/thing". extension is
// the id of the extension that it belongs to, which must have been added, or "". Clients need not
// declare the extension. AddNotification panics on a mistake; see [TryAddNotification].
func AddNotification[P any](s *Server, name, extension string, h NotificationHandler[P]) {
	must(TryAddNotification(s, name, extension, h))
}

// TryAddNotification is [AddNotification] that returns the error, as [TryAddMethod] does.
func TryAddNotification[P any](s *Server, name, extension string, h NotificationHandler[P]) error {
	if err := s.checkExtends(name, extension, serving{}); err != nil {
		return err
	}
	if h == nil {
		return fmt.Errorf("server: notification %q: the handler is nil", name)
	}
	params, err := newParamsOf[P]()
	if err != nil {
		return fmt.Errorf("server: notification %q: params: %w", name, err)
	}
	s.observer.KnowNotification(name)
	handler := s.wrapNotice(name, func(ctx context.Context, n *Notice) {
		in, held, err := params.decode(ctx, s.validator, (*noticeSender)(n), n.in.Params)
		defer held.Release()
		if err != nil {
			s.logger.DebugContext(ctx, "notification.malformed", "method", name, "error", err)
			return
		}
		h(ctx, n, in)
	})
	replaced, err := s.extensions.enter(name, extension, func() bool {
		return s.notices.put(name, noticeHandler{handle: handler, own: true, extension: extension})
	})
	if replaced {
		logReplaced(s.logger, "notification", name, false)
	}
	return err
}

// wrapNotice wraps the handler of a notification in the server's chain.
func (s *Server) wrapNotice(name string, h func(context.Context, *Notice)) func(context.Context, *Notice) {
	wrapped := middleware.Chain(s.routes.chain...)(func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		n, ok := req.Origin.(*Notice)
		if !ok {
			return nil, errors.New("server: a middleware has passed on a notification without the Origin of the one that it was given")
		}
		h(ctx, n)
		return nil, nil
	})
	route := middleware.NewRoute(name, "", "")
	return func(ctx context.Context, n *Notice) {
		req := &middleware.Request{
			Route: route, Method: n.in.Method, Params: n.in.Params, Header: n.in.Header, Principal: n.in.Conn.Principal,
			ArrivedAt: time.Now(), Origin: n,
		}
		era.DescribePeer(&req.Peer, n.in, n.session)
		if _, err := wrapped(ctx, req); err != nil {
			s.core.CountRefusal(err)
			s.logger.InfoContext(ctx, "notification.error", "method", name, "error", err)
		}
	}
}

// RemoveNotifications removes handlers of notifications of the program by name. Later notifications
// with these names are ignored, as all unknown ones. It ignores unknown names and those of the
// protocol. Running handlers go on.
func (s *Server) RemoveNotifications(names ...string) {
	s.notices.remove(func(name string, h noticeHandler) bool { return h.own && slices.Contains(names, name) })
}

// Notify sends a notification of the program about this request, before its answer. The client
// should have declared the extension that defines it (see [Call.Extension]). method must be a
// constant of the program, since it labels a counter; the names of the protocol are an error.
// params must encode to a JSON object, or be nil.
//
// Notify waits for room and returns errors as [Call.Progress] does.
func (c *Call) Notify(method string, params any) error {
	raw, err := ownParams(method, params)
	if err != nil {
		return err
	}
	return c.dialog.Core.Notify(method, raw, "")
}
