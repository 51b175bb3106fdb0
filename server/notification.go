package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
)

// A NotificationHandler handles the notifications of one name. P is decoded from the
// params as those of a [MethodHandler]; a notification that does not fit is logged at
// level debug and dropped, as nobody waits for an answer.
//
// It is called before the next message of the same connection is read, so that it
// must be quick and must not wait for that client. Middleware does not wrap it.
type NotificationHandler[P any] func(ctx context.Context, n *Notice, params P)

// A Notice is a notification that a client has sent.
type Notice struct {
	in      *session.Inbound
	session *session.Session // nil for a modern HTTP exchange
}

// Method returns the name under which the notification was sent.
func (n *Notice) Method() string { return n.in.Method }

// Extension returns what the client has declared about an extension, as
// [Call.Extension] does. Modern clients need not declare anything with a notification.
func (n *Notice) Extension(id string) (settings jsontext.Value, declared bool) {
	return declaredExtension(n.in, n.session, id)
}

// SessionID returns the Mcp-Session-Id of a legacy HTTP session, or "".
func (n *Notice) SessionID() string {
	if n.session == nil {
		return ""
	}
	return n.session.ID()
}

// Header returns the HTTP header of the exchange, nil on other transports. It must
// not be changed.
func (n *Notice) Header() http.Header { return n.in.Header }

// AddNotification registers what to do with a notification of one's own, or panics if
// that is not possible. See [TryAddNotification].
func AddNotification[P any](s *Server, name, extension string, h NotificationHandler[P]) {
	if err := TryAddNotification(s, name, extension, h); err != nil {
		panic(err)
	}
}

// TryAddNotification registers what to do with a notification of one's own: name is
// what clients send, as in "notifications/com.example/thing", and extension the id of
// the extension that it belongs to, which must have been added, or "". Whoever sends
// it knows the extension: nothing is to be declared for it. TryAddNotification returns
// an error as [TryAddMethod] does.
func TryAddNotification[P any](s *Server, name, extension string, h NotificationHandler[P]) error {
	if err := s.checkExtends(name, extension, nil); err != nil {
		return err
	}
	if h == nil {
		return fmt.Errorf("server: notification %q: the handler is nil", name)
	}
	params, err := newParamsOf[P]()
	if err != nil {
		return fmt.Errorf("server: notification %q: params: %w", name, err)
	}
	return s.notices.add(name, func(ctx context.Context, n *Notice) {
		in, err := params.decode(n.in.Params)
		if err != nil {
			s.logger.DebugContext(ctx, "notification.malformed", "method", name, "error", err)
			return
		}
		h(ctx, n, in)
	})
}

// notices are the notifications that features or users handle.
type notices struct {
	mu     sync.RWMutex
	byName map[string]func(context.Context, *Notice)
}

func (t *notices) add(name string, h func(context.Context, *Notice)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName[name] != nil {
		return fmt.Errorf("server: notification %q is handled already", name)
	}
	if t.byName == nil {
		t.byName = map[string]func(context.Context, *Notice){}
	}
	t.byName[name] = h
	return nil
}

func (t *notices) handle(ctx context.Context, n *Notice) {
	t.mu.RLock()
	h := t.byName[n.in.Method]
	t.mu.RUnlock()
	if h != nil {
		h(ctx, n)
	}
}

// Notify sends a notification of one's own about this request, before its answer, to
// a client that has declared the extension which defines it (see [Call.Extension]).
// method is a constant of the program, since it labels a counter; the names of the
// protocol are an error. params must encode to a JSON object, or be nil.
//
// Notify waits for room and returns errors as [Call.Progress] does.
func (c *Call) Notify(method string, params any) error {
	if err := checkOwnName(method); err != nil {
		return err
	}
	var raw jsontext.Value
	if params != nil {
		var err error
		if raw, err = wire.Marshal(nil, params); err != nil {
			return fmt.Errorf("server: encode the params of %s: %w", method, err)
		}
		if raw.Kind() != '{' {
			return fmt.Errorf("server: the params of %s must encode to a JSON object", method)
		}
	}
	return c.Core().Notify(method, raw, "")
}
