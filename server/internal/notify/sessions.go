package notify

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// Legacy clients have no subscriptions/listen. Each session gets the changes of lists and the
// events of the extensions that it has declared, from the end of its handshake on. It gets
// updates of the resources that it has subscribed to (specification of 2025-11-25: "Resources",
// subscriptions).

// Begin subscribes a session to what its handshake has announced.
func (s *Subscriptions) Begin(sess *session.Session) {
	var topics []Topic
	for kind := range numLists {
		if s.catalog.Announces(kind) {
			topics = append(topics, Topic{Kind: kind})
		}
	}
	for _, id := range s.catalog.Extensions() {
		if _, declared := era.SessionExtension(sess, id); declared {
			topics = append(topics, Topic{Extension, id})
		}
	}
	s.hub.add(s.feed(sess), 0, topics...)
}

// feed returns the feed of a session, which it makes on first use. The feed leaves the hub when
// the session is closed.
func (s *Subscriptions) feed(sess *session.Session) *Feed {
	s.mu.Lock()
	f := s.feeds[sess]
	first := f == nil
	if first {
		f, _ = s.hub.join(s.hub.roomOf(s.core.CallerOf(nil, sess)), postTo(sess), s.catalog.SessionMay(sess), nil, nil)
		s.feeds[sess] = f
	}
	s.mu.Unlock()
	if first {
		sess.OnClosed(func() { s.forget(sess, f) })
		f.send()
	}
	return f
}

func (s *Subscriptions) forget(sess *session.Session, f *Feed) {
	s.mu.Lock()
	delete(s.feeds, sess)
	s.mu.Unlock()
	tellEnds(sess, session.EndWithSession, s.hub.leave(f))
}

// tellEnds tells telemetry that subscriptions to resources have ended that began at these times.
func tellEnds(sess *session.Session, end string, since []time.Time) {
	for _, at := range since {
		sess.ResourceUnsubscribed(end, time.Since(at))
	}
}

// postTo returns a function that posts notifications to a session.
func postTo(sess *session.Session) func(n Notification, done func()) {
	return func(n Notification, done func()) {
		if n.event() {
			sess.PostEach(n.method(), n.params(), done)
		} else {
			sess.Post(n.method(), n.params(), done)
		}
	}
}

// Subscribe serves resources/subscribe.
func (s *Subscriptions) Subscribe(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	uri, err := namedURI(req)
	if err != nil {
		return nil, err
	}
	if err := s.catalog.CheckReadable(ctx, req, uri); err != nil {
		return nil, err
	}
	sess := era.CoreOf(req).Session()
	switch s.hub.add(s.feed(sess), s.core.Limits().MaxResourceSubscriptions, Topic{Resource, uri}) {
	case limits.NameResourceSubscriptions:
		return nil, s.tooManyResources()
	case limits.NameSubscribedBytes:
		return nil, s.noRoom()
	}
	shareResources(sess, func(all []string) []string {
		if slices.Contains(all, uri) {
			return all
		}
		return append(all, uri)
	})
	return &mcp.EmptyResult{}, nil
}

// shareResources changes the subscriptions that the session has at all replicas.
func shareResources(sess *session.Session, change func([]string) []string) {
	sess.Share(func(st *session.SharedState) { st.Resources = change(slices.Clone(st.Resources)) })
}

// Replace subscribes a session to these resources, and to no others. Those for which there is no room are left out.
func (s *Subscriptions) Replace(sess *session.Session, uris []string) {
	ended, ok := s.hub.replaceResources(s.feed(sess), uris)
	if !ok {
		s.core.LimitReached(limits.NameSubscribedBytes)
	}
	tellEnds(sess, session.EndElsewhere, ended)
}

// Unsubscribe serves resources/unsubscribe. It ends the subscription at all replicas, also if only another one has it. For a
// subscription it succeeds also if the resource was removed.
func (s *Subscriptions) Unsubscribe(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	uri, err := namedURI(req)
	if err != nil {
		return nil, err
	}
	sess := era.CoreOf(req).Session()
	var elsewhere atomic.Bool
	shareResources(sess, func(all []string) []string {
		rest := slices.DeleteFunc(all, func(other string) bool { return other == uri })
		elsewhere.Store(len(rest) < len(all))
		return rest
	})
	since, here := s.hub.remove(s.feed(sess), Topic{Resource, uri})
	if here {
		tellEnds(sess, session.EndUnsubscribed, []time.Time{since})
	} else if !elsewhere.Load() {
		if err := s.catalog.CheckReadable(ctx, req, uri); err != nil {
			return nil, err
		}
	}
	return &mcp.EmptyResult{}, nil
}

// namedURI returns the URI that a request names.
func namedURI(req *middleware.Request) (string, error) {
	in := era.CoreOf(req)
	if !in.HasName {
		return "", mcp.NewError(mcp.CodeInvalidParams, "params.uri is missing")
	}
	return in.Name, nil
}
