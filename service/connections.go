package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// connections is a listener that bounds its open connections, and their requests of HTTP/2. The
// addresses share the places: see [share.Pool]. Over the bound it closes connections that are idle, the ones that are idle longest
// first, of addresses that have no less than the one of the new connection. If there are none it
// closes the new connection.
//
// It also bounds the connections on which a large head arrives, until its request has a handler: its
// headers take a multiple of their bytes in memory. The addresses share these places too. A head that
// gets none within the time for heads loses its connection.
type connections struct {
	net.Listener
	table  *share.Table
	places *share.Pool
	// heads has the places of connections on which a head of more than freeHead arrives, and
	// headTime is how long one waits for a place.
	heads    *share.Pool
	headTime time.Duration
	size     int
	reached  func(limit string)
	ended    endings

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
	gone   atomic.Bool // the peer sends no more
	// answered is true if something was written since the last request came, and before the peer had gone.
	answered atomic.Bool
	// readBy is the deadline of reads, in ns since 1970, until one has missed it; 0 if there is none, or it was in the past
	// from the beginning.
	readBy atomic.Int64

	mu    sync.Mutex // guards the rest
	head  int        // bytes that came since it was idle
	large bool       // it has a place of heads
	// stopWaiting ends the wait for such a place; nil before there is one.
	stopWaiting context.CancelFunc
}

const (
	// freeHead is the size in bytes up to which a head needs no place: net/http reads that much at once.
	freeHead = 4 << 10
	// headShare is the part of the connections that may have a larger head, one of so many, and
	// fewestHeads what they are at least.
	headShare, fewestHeads = 64, 32
)

var errTooManyHeads = errors.New("service: too many large heads arrive at once")

func newConnections(l net.Listener, size int, headTime time.Duration, reached func(limit string)) *connections {
	table := share.NewTable()
	places := table.Pool(size)
	all := &connections{
		table: table, places: places, size: size, reached: reached, open: map[*connection]struct{}{},
		heads: share.NewPool(max(fewestHeads, size/headShare)), headTime: headTime, ended: endings{now: time.Now},
	}
	all.Listener = giveWay(l, func() bool { return places.Usage().Holders > 1 }, all.ended.hangUps)
	return all
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		caller := l.table.Get(share.KeyOf(nil, share.AddrOf(c.RemoteAddr().String())))
		if l.acquire(caller) {
			return l.add(c, caller), nil
		}
		l.reached(limits.NameConnections)
		caller.Release()
		c.Close()
	}
}

// acquire takes a place, for which it closes idle connections if need be.
func (l *connections) acquire(caller *share.Caller) bool {
	return l.places.TryAcquire(caller) || l.evict(caller) && l.places.TryAcquire(caller)
}

// Snapshot implements [telemetry.Source].
func (l *connections) Snapshot() *telemetry.Snapshot {
	all := l.table.All()
	usage := l.places.Usage()
	largest, of := l.places.Largest(all)
	for _, c := range all {
		c.Release()
	}
	row := state.Share{
		Limit: limits.NameConnections, Size: usage.Size, Used: usage.Used, Holding: usage.Holders, Largest: largest,
	}
	if largest > 0 {
		row.Caller = of.String()
	}
	return &telemetry.Snapshot{At: time.Now(), Shares: []state.Share{row}}
}

// writeBuffer is the memory that the kernel sets aside for what a peer has not read yet, in bytes; Linux
// takes twice as much. Without a bound it is up to 4 MiB for each connection: then one of a peer that
// does not read takes many large answers, and the processor time to make them.
const writeBuffer = 128 << 10

func (l *connections) add(c net.Conn, caller *share.Caller) *connection {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(writeBuffer) // the peer may have gone
	}
	wrapped := &connection{Conn: c, of: l, caller: caller}
	wrapped.idle.Store(time.Now().UnixNano())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[wrapped] = struct{}{}
	return wrapped
}

const (
	// evictPause is the least time between two looks at all connections, so that a flood of new ones does not pay for each.
	evictPause = 5 * time.Millisecond
	// greedyPause is that time for callers who hold about an equal share or more. Their new connections take the places of
	// theirs, and of others who hold as many. A flood of callers that connect again as soon as they are closed would go
	// on as fast as the server can.
	greedyPause = 100 * time.Millisecond
)

// evict closes idle connections, and reports whether there were any. It closes several, because
// it has to look at all connections.
func (l *connections) evict(newcomer *share.Caller) bool {
	has, pause := l.places.Held(newcomer), evictPause
	if has*(l.places.Usage().Holders+1) >= l.size {
		pause = greedyPause
	}
	type candidate struct {
		*connection
		since int64 // its idle then
	}
	var idle []candidate
	l.mu.Lock()
	if now := time.Now(); now.Sub(l.looked) >= pause {
		l.looked = now
		for c := range l.open {
			if since := c.idle.Load(); since != 0 {
				idle = append(idle, candidate{c, since})
			}
		}
	}
	l.mu.Unlock()
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

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.overslept() {
		n, err = c.Conn.Read(p)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.gone.Store(true)
	}
	if n > 0 && c.idle.Load() != 0 && !c.headGrows(n) {
		c.of.reached(limits.NameConnections)
		c.Close()
		return 0, errTooManyHeads
	}
	return n, err
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 && c.idle.Load() == 0 && !c.answered.Load() && !c.gone.Load() { // idle connections write for TLS only
		c.answered.Store(true)
	}
	return n, err
}

const (
	// sleep is how late a read must be that misses its deadline because the process did not run: it was stopped, or its
	// machine was. What the peer has sent meanwhile was in time.
	sleep = 100 * time.Millisecond
	// lastLook is how long it may then read what is there.
	lastLook = 100 * time.Millisecond
)

// overslept reports whether the read that has missed its deadline did so because the process did not run, and gives it
// time for what is there, once for each deadline.
func (c *connection) overslept() bool {
	by := c.readBy.Swap(0)
	if by == 0 || time.Since(time.Unix(0, by)) < sleep {
		return false
	}
	return c.Conn.SetReadDeadline(time.Now().Add(lastLook)) == nil
}

// SetReadDeadline implements net.Conn.
func (c *connection) SetReadDeadline(t time.Time) error {
	c.noteDeadline(t)
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error {
	c.noteDeadline(t)
	return c.Conn.SetDeadline(t)
}

func (c *connection) noteDeadline(t time.Time) {
	by := int64(0)
	if !t.IsZero() && t.After(time.Now()) {
		by = t.UnixNano()
	}
	c.readBy.Store(by)
}

// headGrows counts bytes of a head. A large head waits for a place; headGrows reports whether it has
// got one in time.
func (c *connection) headGrows(n int) bool {
	c.mu.Lock()
	c.head += n
	if c.head <= freeHead || c.large || c.closed.Load() {
		c.mu.Unlock()
		return true
	}
	ctx, stop := context.WithTimeout(context.Background(), c.of.headTime)
	c.stopWaiting = stop
	defer c.caller.Hold().Release() // Close may come first
	c.mu.Unlock()
	defer stop()
	if c.of.heads.Acquire(ctx, c.caller) != nil {
		return c.closed.Load() // then nothing is to be counted
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.large = !c.closed.Load(); !c.large {
		c.of.heads.Release(c.caller)
	}
	return true
}

// headEnds gives the place of a large head back.
func (c *connection) headEnds() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head = 0; c.large {
		c.large = false
		c.of.heads.Release(c.caller)
	}
}

// Close closes the connection and gives its places back.
func (c *connection) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.of.ended.note(c.answered.Load())
		c.mu.Lock()
		if c.stopWaiting != nil {
			c.stopWaiting()
		}
		c.mu.Unlock()
		c.headEnds()
		c.of.mu.Lock()
		delete(c.of.open, c)
		c.of.mu.Unlock()
		c.of.places.Release(c.caller)
		c.caller.Release()
	}
	return c.Conn.Close()
}

// noteGone notes that a client has gone before its handler returned: what is written then is no answer. With TLS a client says so
// in a way that its connection does not understand.
func noteGone(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if r.ProtoMajor == 1 && r.Context().Err() != nil {
			if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
				c.gone.Store(true)
			}
		}
	})
}

// noteState is the hook of an HTTP server: it tells which connections are idle, and which wait for an answer.
func noteState(c net.Conn, state http.ConnState) {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	if c, ok := c.(*connection); ok {
		switch state {
		case http.StateActive:
			c.idle.Store(0)
			c.answered.Store(false)
			c.headEnds()
		case http.StateIdle:
			c.headEnds()
			c.idle.Store(time.Now().UnixNano())
		}
	}
}
