package server

import (
	"context"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// push tells legacy sessions of changes: of those of lists every session whose handshake
// is finished, of updated resources those that have subscribed to them. It needs no
// goroutine: what a session is told next is posted when it has been written what it was
// told before.
type push struct {
	server *Server

	mu    sync.Mutex // guards feeds
	feeds map[*session.Session]*feed
}

// begin tells a session of changes from the end of its handshake on.
func (p *push) begin(sess *session.Session) {
	lists, _ := p.server.tellable() // what the handshake has announced
	p.server.hub.enlist(p.feed(sess), lists)
}

// feed returns the feed of a session, making it on first use. It is there until the
// session is closed.
func (p *push) feed(sess *session.Session) *feed {
	p.mu.Lock()
	f := p.feeds[sess]
	first := f == nil
	if first {
		f = newFeed(pushed{p.server, sess}, 0, nil, p.server.core.Limits().MaxPendingUpdates)
		p.feeds[sess] = f
	}
	p.mu.Unlock()
	if first {
		p.server.hub.join(f)
		sess.OnClosed(func() { p.forget(sess, f) })
		f.send()
	}
	return f
}

func (p *push) forget(sess *session.Session, f *feed) {
	p.mu.Lock()
	delete(p.feeds, sess)
	p.mu.Unlock()
	p.server.hub.leave(f)
}

// subscribe serves resources/subscribe.
func (p *push) subscribe(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	uri, err := p.uriOf(ctx, req)
	if err != nil {
		return nil, err
	}
	topic := change{resourceUpdated, uri}
	if !p.server.hub.add(p.feed(era.CoreOf(req).Session()), topic, p.server.core.Limits().MaxResourceSubscriptions) {
		return nil, p.server.tooManyResources()
	}
	return &mcp.EmptyResult{}, nil
}

// unsubscribe serves resources/unsubscribe. A resource that has gone meanwhile is one of
// which the client need not be told any more.
func (p *push) unsubscribe(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	if in := era.CoreOf(req); in.HasName {
		if p.server.hub.remove(p.feed(in.Session()), change{resourceUpdated, in.Name}) {
			return &mcp.EmptyResult{}, nil
		}
	}
	if _, err := p.uriOf(ctx, req); err != nil {
		return nil, err
	}
	return &mcp.EmptyResult{}, nil
}

// uriOf returns the URI that a request names, if its caller may read it.
func (p *push) uriOf(ctx context.Context, req *middleware.Request) (string, error) {
	in := era.CoreOf(req)
	if !in.HasName {
		return "", mcp.NewError(mcp.CodeInvalidParams, "params.uri is missing")
	}
	if !p.server.readableBy(ctx, req, in.Name) {
		return "", noResource(in.Name)
	}
	return in.Name, nil
}

// pushed is the outlet of a session.
type pushed struct {
	server  *Server
	session *session.Session
}

// post implements outlet.
func (o pushed) post(c news, done func()) {
	var params []byte
	if c.kind == resourceUpdated {
		params = append(appendURI([]byte{'{'}, c.name), '}')
	}
	o.session.Post(c.kind.notification(), params, done)
}

// overflow implements outlet.
func (o pushed) overflow() { o.server.core.LimitReached(session.LimitPendingUpdates) }
