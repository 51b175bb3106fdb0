package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy forwards TCP connections to a server, until its test ends, and breaks them as the test asks.
// Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	all      sync.WaitGroup

	mu     sync.Mutex // guards the rest
	change sync.Cond
	conns  map[net.Conn]struct{}
	frozen bool
	mute   bool // of the server
	cut    bool
	over   bool
	dialed int // how many connections have come
	delay  time.Duration
}

// StartProxy runs a proxy on a free port of 127.0.0.1, in front of a host and port.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{listener: listener, target: target, conns: map[net.Conn]struct{}{}}
	p.change.L = &p.mu
	p.all.Go(p.accept)
	tb.Cleanup(func() {
		listener.Close()
		p.set(func() { p.over = true; p.closeAll() })
		p.all.Wait()
	})
	return p
}

// Addr returns the host and port to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections, and each new one at once.
func (p *Proxy) Cut() { p.set(func() { p.cut = true; p.closeAll() }) }

// Drop closes all connections. New ones are forwarded.
func (p *Proxy) Drop() { p.set(p.closeAll) }

// Freeze forwards nothing more, in both directions. Connections stay open, and new ones are accepted.
func (p *Proxy) Freeze() { p.set(func() { p.frozen = true }) }

// FreezeAnswers forwards what clients send, and nothing of what the server answers.
func (p *Proxy) FreezeAnswers() { p.set(func() { p.mute = true }) }

// Slow delays each chunk that arrives, in both directions.
func (p *Proxy) Slow(delay time.Duration) { p.set(func() { p.delay = delay }) }

// Heal ends Cut, Freeze, FreezeAnswers and Slow. What came while the proxy was frozen is forwarded then.
func (p *Proxy) Heal() { p.set(func() { p.cut, p.frozen, p.mute, p.delay = false, false, false, 0 }) }

// Dialed returns how many connections have been forwarded since the proxy was started.
func (p *Proxy) Dialed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dialed
}

// AwaitDialed waits until so many connections have been forwarded.
func (p *Proxy) AwaitDialed(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.dialed < n {
		p.change.Wait()
	}
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.change.Broadcast()
}

// closeAll closes the connections. The caller must hold p.mu.
func (p *Proxy) closeAll() {
	for conn := range p.conns {
		conn.Close()
	}
	clear(p.conns)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.serve(client) })
	}
}

// serve forwards one connection in both directions.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.add(client, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.forward(server, client, false) })
	both.Go(func() { p.forward(client, server, true) })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// add reports whether a connection may begin.
func (p *Proxy) add(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.over {
		return false
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.dialed++
	p.change.Broadcast()
	return true
}

// forward copies one direction until it ends, and then closes both.
func (p *Proxy) forward(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.pass(from, answers) {
			return
		}
		if _, writeErr := to.Write(buffer[:n]); writeErr != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// pass waits until bytes may go on. It reports false if their connection was closed meanwhile.
func (p *Proxy) pass(from net.Conn, answers bool) bool {
	p.mu.Lock()
	for (p.frozen || p.mute && answers) && p.open(from) {
		p.change.Wait()
	}
	delay, open := p.delay, p.open(from)
	p.mu.Unlock()
	time.Sleep(delay)
	return open
}

// open reports whether a connection is forwarded. The caller must hold p.mu.
func (p *Proxy) open(conn net.Conn) bool {
	_, open := p.conns[conn]
	return open && !p.over
}
