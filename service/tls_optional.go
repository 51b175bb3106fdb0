package service

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// An optionalTLS is a listener on which each connection may speak TLS. Its first byte tells. It is for
// a loopback address, where programs of the same machine ask, such as probes.
type optionalTLS struct {
	net.Listener
	config   *tls.Config
	patience time.Duration // for the first byte
	arrived  chan arrival  // closed after the last one

	mu      sync.Mutex // guards the rest
	pending map[net.Conn]struct{}
	closed  chan struct{}
}

// An arrival is a connection whose first byte is there, or an error of the listener.
type arrival struct {
	net.Conn
	err error
}

// listenOptionalTLS accepts connections of l until it is closed.
func listenOptionalTLS(l net.Listener, config *tls.Config, patience time.Duration) *optionalTLS {
	o := &optionalTLS{
		Listener: l, config: config, patience: patience, arrived: make(chan arrival),
		pending: map[net.Conn]struct{}{}, closed: make(chan struct{}),
	}
	go o.accept()
	return o
}

func (l *optionalTLS) accept() {
	var peeking sync.WaitGroup
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if !l.pass(arrival{err: err}) {
				peeking.Wait()
				close(l.arrived)
				return
			}
			continue // the server waits before it asks again
		}
		if !l.hold(c) {
			c.Close()
			continue
		}
		peeking.Go(func() { l.peek(c) })
	}
}

// hold has a connection closed with the listener. It reports whether the listener is open.
func (l *optionalTLS) hold(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending[c] = struct{}{}
	select {
	case <-l.closed:
		return false
	default:
		return true
	}
}

// recordHandshake is the first byte of a client that speaks TLS (RFC 8446, section 5.1). No request
// of HTTP begins with it.
const recordHandshake = 0x16

// peek reads the first byte of a connection and passes it on.
func (l *optionalTLS) peek(c net.Conn) {
	first := make([]byte, 1)
	_ = c.SetReadDeadline(time.Now().Add(l.patience))
	_, err := c.Read(first)
	_ = c.SetReadDeadline(time.Time{})
	l.mu.Lock()
	delete(l.pending, c)
	l.mu.Unlock()
	if err != nil {
		c.Close()
		return
	}
	var ready net.Conn = &peekedConn{c, first}
	if first[0] == recordHandshake {
		ready = tls.Server(ready, l.config)
	}
	if !l.pass(arrival{Conn: ready}) {
		c.Close()
	}
}

// pass gives an arrival to Accept. It reports whether the listener is open.
func (l *optionalTLS) pass(a arrival) bool {
	select {
	case l.arrived <- a:
		return true
	case <-l.closed:
		return false
	}
}

// Accept implements net.Listener.
func (l *optionalTLS) Accept() (net.Conn, error) {
	a, open := <-l.arrived
	if !open {
		return nil, net.ErrClosed
	}
	return a.Conn, a.err
}

// Close implements net.Listener. It also closes connections that nobody has accepted.
func (l *optionalTLS) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	for c := range l.pending {
		c.Close()
	}
	return l.Listener.Close()
}

// A peekedConn is a connection whose first byte was read already.
type peekedConn struct {
	net.Conn
	first []byte
}

// Read implements net.Conn.
func (c *peekedConn) Read(p []byte) (n int, err error) {
	if len(c.first) > 0 && len(p) > 0 {
		n = copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}
