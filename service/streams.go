package service

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// maxStreams is the number of requests that an HTTP/2 connection carries at once. A proxy that needs
// more opens more connections. The default of net/http is 250.
const maxStreams = 32

// maxRefusing is the number of refused requests of HTTP/2 whose answers are being written. They have
// no places, so there must be few of them.
const maxRefusing = 64

// connectionKey is the key of the connection in the context of a request.
type connectionKey struct{}

// withConnection is the hook of an HTTP server that lets handlers find the connection.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// streamPlaces gives each request of HTTP/2 a place of its own, as if it had come over a connection of
// its own: it takes as much memory, for its goroutine, its buffers and its header. Without a place it
// is refused.
func (p *process) streamPlaces(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
				leave, ok := c.enter()
				if !ok {
					p.refuseStream(w, r)
					return
				}
				defer leave()
			}
		}
		next.ServeHTTP(w, r)
	})
}

// enter takes a place for a request over the connection, and returns a function that gives it back.
func (c *connection) enter() (leave func(), ok bool) {
	l := c.of
	caller := l.table.Get(c.caller.Key()) // the connection may give its own reference up
	if !l.acquire(caller) {
		caller.Release()
		return nil, false
	}
	return func() {
		l.places.Release(caller)
		caller.Release()
	}, true
}

// refuseStream answers a request of HTTP/2 without a place, or ends its stream if many of these answers
// are not read.
func (p *process) refuseStream(w http.ResponseWriter, r *http.Request) {
	p.limitReached(limits.NameConnections)
	defer p.refusing.Add(-1)
	if p.refusing.Add(1) > maxRefusing {
		panic(http.ErrAbortHandler)
	}
	r.Header = nil
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(p.srv.Limits().WriteTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.Write(wire.AppendError(nil, mcp.ID{}, session.Overload(limits.NameConnections))) // the client may have gone
	_ = rc.Flush()
}
