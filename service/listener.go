package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// A listener is a bound address and the HTTP server on it.
type listener struct {
	net.Listener
	http *http.Server
	tls  bool // connections speak TLS
	// optional is true if they may do without TLS, and the listener itself looks after it.
	optional bool
	done     chan struct{} // closed when serving has ended; nil before it began
}

func (l *listener) serve(base context.Context, broken chan<- error) {
	if l == nil {
		return
	}
	l.http.BaseContext = func(net.Listener) context.Context { return base }
	l.done = make(chan struct{})
	go func() {
		defer close(l.done)
		serve := l.http.Serve
		if l.tls && !l.optional {
			serve = func(from net.Listener) error { return l.http.ServeTLS(from, "", "") }
		}
		if err := serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
			broken <- fmt.Errorf("service: serve on %s: %w", l.Addr(), err)
		}
	}()
}

// close closes the listener and its connections. Requests in flight have the grace period to end.
func (l *listener) close(grace time.Duration) {
	if l == nil {
		return
	}
	if l.done == nil {
		l.Listener.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if l.http.Shutdown(ctx) != nil {
		l.http.Close()
	}
	<-l.done
}

// url returns the address with http:// or https:// before it. For a listener on all
// interfaces it is the loopback address, which works on this machine.
func (l *listener) url() string {
	if l == nil {
		return ""
	}
	addr := l.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http://"
	if l.tls && !l.optional {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}
