package service

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// connections is a listener that bounds its open connections. The addresses share them: see
// [share.Pool]. Over the bound it closes connections that are idle, the ones that are idle longest
// first, of addresses that have no less than the one of the new connection. If there are none it
// closes the new connection.
type connections struct {
	net.Listener
	table   *share.Table
	places  *share.Pool
	size    int
	reached func(limit string)

	mu     sync.Mutex // guards the rest
	open   map[*connection]struct{}
	looked time.Time // when evict looked for idle ones
}

// A connection is one of a listener of connections.
type connection struct {
	net.Conn
	of     *connections
	caller *share.Caller // of the address
	// idle is when it became idle, in ns since 1970; 0 while it serves a request.
	idle   atomic.Int64
	closed atomic.Bool
}

func newConnections(l net.Listener, size int, reached func(limit string)) *connections {
	table := share.NewTable()
	return &connections{
		Listener: l, table: table, places: table.Pool(size), size: size, reached: reached, open: map[*connection]struct{}{},
	}
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		caller := l.table.Get(share.KeyOf(nil, share.AddrOf(c.RemoteAddr().String())))
		if l.places.TryAcquire(caller) || l.evict(caller) && l.places.TryAcquire(caller) {
			return l.add(c, caller), nil
		}
		l.reached(limits.NameConnections)
		caller.Release()
		c.Close()
	}
}

// Snapshot implements [telemetry.Source].
func (l *connections) Snapshot() *telemetry.Snapshot {
	all := l.table.All()
	usage := l.places.Usage()
	largest, of := l.places.Largest(all)
	for _, c := range all {
		c.Release()
	}
	state := telemetry.ShareState{
		Limit: limits.NameConnections, Size: usage.Size, Used: usage.Used, Holding: usage.Holders, Largest: largest,
	}
	if largest > 0 {
		state.Caller = of.String()
	}
	return &telemetry.Snapshot{At: time.Now(), Shares: []telemetry.ShareState{state}}
}

func (l *connections) add(c net.Conn, caller *share.Caller) *connection {
	wrapped := &connection{Conn: c, of: l, caller: caller}
	wrapped.idle.Store(time.Now().UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[wrapped] = struct{}{}
	return wrapped
}

// evictPause is the least time between two looks at all connections, so that a flood of new ones
// does not pay for each.
const evictPause = 5 * time.Millisecond

// evict closes idle connections, and reports whether there were any. It closes several, because
// it has to look at all connections.
func (l *connections) evict(newcomer *share.Caller) bool {
	type candidate struct {
		*connection
		since int64 // its idle then
	}
	var idle []candidate
	l.mu.Lock()
	if now := time.Now(); now.Sub(l.looked) >= evictPause {
		l.looked = now
		for c := range l.open {
			if since := c.idle.Load(); since != 0 {
				idle = append(idle, candidate{c, since})
			}
		}
	}
	l.mu.Unlock()
	has := l.places.Held(newcomer)
	idle = slices.DeleteFunc(idle, func(c candidate) bool { return l.places.Held(c.caller) < has })
	slices.SortFunc(idle, func(a, b candidate) int { return cmp.Compare(a.since, b.since) })
	closed := false
	for _, c := range idle[:min(len(idle), 1+l.size/64)] {
		if c.idle.Load() == c.since { // it has not got a request meanwhile
			l.reached(limits.NameConnections)
			c.Close()
			closed = true
		}
	}
	return closed
}

// Close closes the connection and gives its place back.
func (c *connection) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.of.mu.Lock()
		delete(c.of.open, c)
		c.of.mu.Unlock()
		c.of.places.Release(c.caller)
		c.caller.Release()
	}
	return c.Conn.Close()
}

// noteState is the hook of an HTTP server: it tells which connections are idle.
func noteState(c net.Conn, state http.ConnState) {
	if c, ok := c.(*connection); ok {
		switch state {
		case http.StateActive:
			c.idle.Store(0)
		case http.StateIdle:
			c.idle.Store(time.Now().UnixNano())
		}
	}
}
