package server

import (
	"context"
	"fmt"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
)

// announce sends the change of a list to its subscribers. If there are policies, only those are told
// that may see one of the items.
func (s *Server) announce(list notify.Kind, items []changedItem) {
	if !s.access.restricts {
		s.publish(list, "")
		return
	}
	for _, item := range items {
		n := notify.Notification{Topic: notify.Topic{Kind: list, Name: item.name}}
		for _, to := range item.targets {
			n.Items = append(n.Items, to)
		}
		s.tell(n)
	}
}

// May implements [notify.Catalog].
func (c *catalog) May(req *middleware.Request) func(notify.Notification, notify.Topic) bool {
	s := (*Server)(c)
	if !s.access.restricts {
		return nil
	}
	who := s.callerOf(req)
	return func(n notify.Notification, as notify.Topic) bool { return s.mayKnow(who, n, as) }
}

// SessionMay implements [notify.Catalog].
func (c *catalog) SessionMay(sess *session.Session) func(notify.Notification, notify.Topic) bool {
	s := (*Server)(c)
	if !s.access.restricts {
		return nil
	}
	return func(n notify.Notification, as notify.Topic) bool {
		conn := *sess.Conn()
		conn.Principal = sess.Principal() // its latest token may have other scopes
		caller := s.access.callerOf(&session.Inbound{Conn: &conn}, sess)
		return s.mayKnow(&caller, n, as)
	}
}

// mayKnow decides whether a subscriber of as is told of a change. The subscriber is not told if ScopesFor panics.
func (s *Server) mayKnow(c *caller, n notify.Notification, as notify.Topic) (may bool) {
	ctx, cancel := context.WithTimeout(context.Background(), s.core.Limits().NotifyTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			may = false
			s.core.LogDecision(ctx, &auth.Decision{Err: fmt.Errorf("server: a decision panicked: %v", v)},
				func() []any { return []any{"listed", "change"} })
		}
	}()
	if n.Kind == notify.Resource {
		return s.mayKnowOf(ctx, c, n.Topic, as)
	}
	for _, item := range n.Items {
		switch item := item.(type) {
		case *target:
			if s.shows(ctx, c, item, c.fill(new(auth.Operation))) {
				return true
			}
		case taskTool: // the notification has the result of the task
			d := s.decideTool(ctx, c, string(item))
			return d.Passes()
		}
	}
	return len(n.Items) == 0
}

// mayKnowOf decides whether a subscriber of the resource as is told of a change of a resource, which is a
// part of as or the same. The nearest item decides that has the URI of the change, or of what the change
// is a part of.
func (s *Server) mayKnowOf(ctx context.Context, c *caller, changed, as notify.Topic) bool {
	for whole := range changed.Wholes {
		if to, d := s.visible(ctx, c, whole.Name); to != nil || d != nil {
			return to != nil
		}
		if whole == as {
			break
		}
	}
	return true
}

// A taskTool is the tool of a task that has changed.
type taskTool string

// decideTool decides whether the caller may see a tool, which may have been removed.
func (s *Server) decideTool(ctx context.Context, c *caller, name string) auth.Decision {
	if to := s.tools.target(name); to != nil {
		return s.decideListed(ctx, c, to)
	}
	return s.access.decide(ctx, c, &auth.Operation{Method: mcp.MethodToolsCall, Kind: auth.KindTool, Name: name, Listed: true})
}

// mayUseTasks tells for each tool whether its tasks exist for the caller, to whom they belong. The error
// challenges the caller for the scopes of all that do.
func (s *Server) mayUseTasks(ctx context.Context, req *middleware.Request, tools []string) (exist []bool, err error) {
	exist = make([]bool, len(tools))
	decided := make([]auth.Decision, len(tools))
	caller, asked := s.callerOf(req), s.access.asked.Load()
	for i, tool := range tools {
		if asked {
			decided[i] = s.decideTool(ctx, caller, tool)
		}
		exist[i] = !asked || decided[i].Passes()
	}
	if !asked || len(tools) == 0 {
		return exist, nil
	}
	d := strictest(decided)
	s.access.note(ctx, era.CoreOf(req), &d)
	if needsScopes(&d) {
		return nil, s.access.challenge(req.Principal, &d)
	}
	return exist, nil
}
