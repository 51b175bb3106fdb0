package session

import (
	"context"
	"errors"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// ErrNotRestartable says that the route of a request does not let its work begin again.
var ErrNotRestartable = errors.New("session: the work of this request may not begin again")

// A Restart is detached work that has begun at another process, as a request of a client, and begins again
// here from its start. That request was answered long ago: it is in no table, has no slot but that of the class
// and no connection, and counts as settled.
//
// Between [Core.Restart] and Begin nobody is told of the work. If it is not to begin, [Detached.Done] ends it.
type Restart struct {
	*Detached
	request *Request
}

// Restart enters work that begins again with the request in, as its run-th run. Its context has the values of
// in. Restart returns [ErrNotRestartable] if the route does not allow it, and an error answer when the server drains or too
// much work is detached.
func (c *Core) Restart(in *Inbound, name string, run int, deadline time.Time) (*Restart, error) {
	r := makeRequest(c, in, nil, c.Exchange(in.Conn, 0, in.Era), c.dispatcher.Route(in, nil))
	defer r.letGo()
	if !r.Route.Restartable {
		return nil, ErrNotRestartable
	}
	r.verdict.settle(0, answering, -1)
	r.lane = c.ledger.lane()
	r.slots.caller, r.slots.class = r.caller, r.Route.Class
	d, refused := c.detach(r.ctx, r, name, deadline, c.ledger.lane().enter)
	if refused != nil {
		return nil, refused
	}
	d.Run = run
	return &Restart{d, r}, nil
}

// Begin tells the observer of the work, unless the policies or a rule of admission refuse the request now. Then
// it returns their error, and the caller must end the work.
func (s *Restart) Begin() *mcp.Error {
	r := s.request
	refused := s.core.askRules(r)
	if refused == nil && r.hidden {
		refused = (&mcp.Refusal{Status: 403, Reason: "forbidden", By: byAuthorization}).RPC()
	}
	if refused != nil {
		s.core.countRefusal(refused)
		s.core.tell("Rejected", func(o Observer) { o.Rejected(r, mcp.RejectRefused, refused) })
		return refused
	}
	s.observe(r)
	return nil
}

// Serve calls the handler of the route, in the context of the work, once there is a slot of its class. It returns
// what the handler has returned, or the cause of the work's end if that comes first. A panic of the handler is
// the caller's.
func (s *Restart) Serve() (mcp.Result, error) {
	if s.request.Route.Class != nil {
		s.inClass.state.Store(partYielded)
		if err := s.inClass.resume(s.Context(), s.class); err != nil {
			return nil, err
		}
	}
	return s.request.Route.Handle(s.Context(), s.request)
}

// With returns a context that has the values of another one, and the end and the deadline of the work.
func (d *Detached) With(values context.Context) context.Context {
	work := d.Context()
	base, cancel := context.WithCancelCause(context.WithoutCancel(values))
	context.AfterFunc(work, func() { cancel(context.Cause(work)) })
	return &requestContext{base, d.deadline}
}
