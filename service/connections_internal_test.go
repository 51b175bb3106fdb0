package service

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/internal/share"
)

// serveConnections serves HTTP on a listener with so many places. A request for /wait is answered
// when wait is closed.
func serveConnections(t *testing.T, size int, headTime time.Duration, wait <-chan struct{}) (l *connections, reached *atomic.Int64) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	reached = new(atomic.Int64)
	l = newConnections(inner, size, headTime, func(limit string) {
		require.Equal(t, "max_connections", limit)
		reached.Add(1)
	})
	srv := &http.Server{ConnState: noteState, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-wait
		}
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return l, reached
}

// ask sends a request over a connection and returns the error of reading the answer.
func ask(c net.Conn, path string) error {
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200 OK")))
	return err
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// A flood of connections closes idle ones. New callers are still served.
func TestIdleConnectionsMakeRoomForNewOnes(t *testing.T) {
	l, reached := serveConnections(t, 64, time.Hour, nil)
	for range 80 {
		c := dial(t, l)
		for ask(c, "/") != nil { // refused while the listener does not look again
			time.Sleep(greedyPause)
			c = dial(t, l)
		}
		require.LessOrEqual(t, l.places.Usage().Used, 64)
	}
	require.GreaterOrEqual(t, reached.Load(), int64(80-64))
}

// A connection that serves a request is not closed, and without idle ones a new one is.
func TestBusyConnectionsAreNotClosed(t *testing.T) {
	wait := make(chan struct{})
	l, reached := serveConnections(t, 3, time.Hour, wait)
	answers := make(chan error, 3)
	for range 3 {
		c := dial(t, l)
		go func() { answers <- ask(c, "/wait") }()
	}
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		busy := 0
		for c := range l.open {
			if c.idle.Load() == 0 {
				busy++
			}
		}
		return busy == 3
	}, 20*time.Second, time.Millisecond)
	require.Error(t, ask(dial(t, l), "/"))
	require.Positive(t, reached.Load())
	close(wait)
	for range 3 {
		require.NoError(t, <-answers)
	}
}

// One caller with as many connections that serve something as it can have, such as an event stream that stays open, leaves room
// for those of others, and keeps its own.
func TestBusyConnectionsOfOneCallerLeaveRoomForOthers(t *testing.T) {
	const size, busy = 64, 0
	reached := 0
	l := newConnections(nil, size, time.Hour, func(string) { reached++ })
	var held []*connection
	for range size - size/16 { // all but the reserve
		held = append(held, l.opened(t, "192.0.2.1:1", busy))
	}
	greedy := l.table.Get(share.KeyOf(nil, share.AddrOf("192.0.2.1:1")))
	defer greedy.Release()
	require.False(t, l.acquire(greedy))
	l.opened(t, "192.0.2.2:1", busy)
	l.opened(t, "192.0.2.3:1", busy)
	for _, c := range held {
		require.False(t, c.closed.Load())
	}
	require.Zero(t, reached, "none was closed for them")
	held[0].Close()
	require.False(t, l.acquire(greedy), "others have taken of the reserve, which is filled first")
	for c := range l.open {
		c.Close()
	}
	require.Zero(t, l.places.Usage().Used)
}

// opened adds a connection that is idle since a time.
func (l *connections) opened(t *testing.T, address string, idleSince int64) *connection {
	server, client := net.Pipe()
	t.Cleanup(func() { client.Close() })
	caller := l.table.Get(share.KeyOf(nil, share.AddrOf(address)))
	require.True(t, l.places.TryAcquire(caller))
	c := l.add(server, caller)
	c.idle.Store(idleSince)
	t.Cleanup(func() { c.Close() })
	return c
}

// Idle connections make room at once for those of a caller that has less than its share, and seldom for more of one that has
// it already.
func TestConnectionsOfOneCallerSeldomReplaceEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, 640, time.Hour, func(string) {})
		for i := range 500 {
			l.opened(t, "192.0.2.1:1", int64(i+1))
		}
		caller := func(address string) *share.Caller {
			c := l.table.Get(share.KeyOf(nil, share.AddrOf(address)))
			t.Cleanup(c.Release)
			return c
		}
		greedy, modest := caller("192.0.2.1:1"), caller("192.0.2.2:1")
		l.opened(t, "192.0.2.2:1", 501)
		time.Sleep(time.Hour)
		require.True(t, l.evict(greedy))
		time.Sleep(evictPause)
		require.False(t, l.evict(greedy))
		require.True(t, l.evict(modest))
		require.False(t, l.evict(modest), "it has just looked")
		time.Sleep(greedyPause - 1)
		require.False(t, l.evict(greedy))
		time.Sleep(time.Nanosecond)
		require.True(t, l.evict(greedy))
		require.Equal(t, 501-3*(1+640/64), l.places.Usage().Used)
	})
}

// A connection that gets a request after it was chosen to be closed is not closed.
func TestConnectionsThatBecomeBusyAreNotClosed(t *testing.T) {
	const size = 64 // two connections are closed at once
	var second *connection
	reached := 0
	l := newConnections(nil, size, time.Hour, func(string) {
		reached++
		noteState(second, http.StateActive) // while the first one is closed
	})
	first := l.opened(t, "192.0.2.1:1", 1)
	second = l.opened(t, "192.0.2.1:1", 2)
	newcomer := l.table.Get(share.KeyOf(nil, share.AddrOf("192.0.2.2:1")))
	defer newcomer.Release()
	require.True(t, l.evict(newcomer))
	require.True(t, first.closed.Load())
	require.False(t, second.closed.Load())
	require.Equal(t, 1, reached)
}

// stall sends large heads that do not come to their end, and waits until no more of them get a place.
func stall(t *testing.T, l *connections, reached *atomic.Int64) (stalled []net.Conn) {
	t.Helper()
	for range 2 * fewestHeads {
		c := dial(t, l)
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n"+longLine)
		require.NoError(t, err)
		stalled = append(stalled, c)
	}
	require.Eventually(t, func() bool {
		usage := l.heads.Usage()
		return int(reached.Load())+usage.Waiters+usage.Used == len(stalled)
	}, 20*time.Second, time.Millisecond)
	require.Less(t, l.heads.Usage().Used, fewestHeads, "some are left to others")
	return stalled
}

var longLine = "X-Long: " + strings.Repeat("x", 2*freeHead) + "\r\n"

// Large heads that do not come to their end have few places, and others wait for one. Other
// addresses can still send large heads, and everybody small ones.
func TestStalledHeadsHavePlaces(t *testing.T) {
	l, reached := serveConnections(t, 1000, time.Hour, nil)
	stalled := stall(t, l, reached)
	require.Zero(t, reached.Load())
	require.NoError(t, ask(dial(t, l), "/"), "a small head needs no place")
	other, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", l.Addr().String())
	if err != nil {
		needs.Skip(t, "service/addresses", "only one loopback address: "+err.Error())
	}
	defer other.Close()
	require.NoError(t, ask(other, "/ HTTP/1.1\r\n"+longLine+"X-Rest:"), "another address")
	require.Eventually(t, func() bool { return l.heads.Usage().Holders == 1 }, 20*time.Second, time.Millisecond)
	for _, c := range stalled {
		c.Close()
	}
	require.Eventually(t, func() bool { return l.heads.Usage() == share.Usage{Size: fewestHeads} }, 20*time.Second, time.Millisecond)
}

// A large head that gets no place in time loses its connection.
func TestLargeHeadsThatGetNoPlaceAreClosed(t *testing.T) {
	l, reached := serveConnections(t, 1000, time.Millisecond, nil)
	stall(t, l, reached)
	require.Eventually(t, func() bool { // one that waits no more is counted a moment later
		usage := l.heads.Usage()
		return usage.Waiters == 0 && int(reached.Load())+usage.Used == 2*fewestHeads
	}, 20*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return l.places.Usage().Used == l.heads.Usage().Used }, 20*time.Second, time.Millisecond)
}

// All places come back when the connections have gone.
func TestClosedConnectionsGiveTheirPlacesBack(t *testing.T) {
	l, _ := serveConnections(t, 3, time.Hour, nil)
	for range 3 {
		var all []net.Conn
		for range 3 {
			c := dial(t, l)
			require.NoError(t, ask(c, "/"))
			all = append(all, c)
		}
		for _, c := range all {
			c.Close()
		}
		require.Eventually(t, func() bool { return l.places.Usage().Used == 0 && l.table.Len() == 0 }, 20*time.Second, time.Millisecond)
	}
}

func TestConnectionsOverTLSBecomeIdle(t *testing.T) {
	c := &connection{of: newConnections(nil, 1, time.Hour, nil)}
	over := tls.Server(c, &tls.Config{})
	noteState(over, http.StateIdle)
	require.NotZero(t, c.idle.Load())
	noteState(over, http.StateActive)
	require.Zero(t, c.idle.Load())
}
