package service

import (
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A readyListener always has a new connection.
type readyListener struct{}

func (readyListener) Accept() (net.Conn, error) {
	c, peer := net.Pipe()
	peer.Close()
	return c, nil
}

func (readyListener) Addr() net.Addr { return nil }
func (readyListener) Close() error   { return nil }

func always() bool { return true }
func never() bool  { return false }

// keepBusy lets other goroutines run all the time, so that the only processor never waits. It returns how often they had.
func keepBusy(t *testing.T) (turns *atomic.Int64) {
	t.Helper()
	before := runtime.GOMAXPROCS(1)
	turns = new(atomic.Int64)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				turns.Add(1)
				runtime.Gosched()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
		runtime.GOMAXPROCS(before)
	})
	return turns
}

// New connections give way to goroutines of open ones, each of them.
func TestNewConnectionsGiveWay(t *testing.T) {
	l := giveWay(readyListener{}, never, never)
	defer l.Close()
	turns := keepBusy(t)
	const accepted = 1000
	l.credit.Store(accepted) // it does not wait
	for range accepted {
		c, err := l.Accept()
		require.NoError(t, err)
		c.Close()
	}
	require.GreaterOrEqual(t, turns.Load(), int64(accepted/2))
}

// New connections are taken after the process has heard of what had come over the open ones, also while the
// processors are busy.
func TestNewConnectionsComeAfterWhatOpenOnesHave(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer inner.Close()
	client, err := net.Dial("tcp", inner.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	open, err := inner.Accept()
	require.NoError(t, err)
	var read atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for one := make([]byte, 1); ; {
			if _, err := open.Read(one); err != nil {
				return
			}
			read.Add(1)
		}
	}()
	defer func() {
		open.Close()
		<-ended
	}()
	l := giveWay(readyListener{}, never, never)
	defer l.Close()
	keepBusy(t)
	const accepted = 20
	for range accepted {
		_, err := client.Write([]byte{0})
		require.NoError(t, err)
		l.credit.Store(0) // it waits
		c, err := l.Accept()
		require.NoError(t, err)
		c.Close()
	}
	require.GreaterOrEqual(t, read.Load(), int64(accepted/2)) // some may be on their way over the loopback interface
}

// The pause protects other callers, and new ones get in all the same.
func TestPauseOfNewConnections(t *testing.T) {
	for _, c := range []struct {
		waited           time.Duration
		several, hangUps func() bool
		pause            time.Duration
		credit           int64
	}{
		{busy, always, always, 0, 0},
		{2 * busy, always, always, 8 * busy, 2},
		{4 * time.Millisecond, always, always, 16 * time.Millisecond, 20},
		{time.Minute, always, always, longest, 40}, // the process was stopped
		{5 * time.Millisecond, never, always, 0, 5},
		{5 * time.Millisecond, always, never, 0, 5},
		{time.Minute, always, never, 0, 20},
	} {
		l := giveWay(readyListener{}, c.several, c.hangUps)
		pause, credit := l.after(c.waited)
		require.Equal(t, c.pause, pause, "after %v", c.waited)
		require.Equal(t, c.credit, credit, "after %v", c.waited)
	}
}

// While the processors are busy and callers hang up, the listener pauses, and takes more connections for it.
func TestBusyListenerPauses(t *testing.T) {
	l := giveWay(readyListener{}, always, always)
	defer l.Close()
	var pauses []time.Duration
	l.sleep = func(d time.Duration) { pauses = append(pauses, d) }
	keepBusy(t)
	credits, waits := 0, 0
	for range 100 {
		if l.credit.Load() > 0 {
			credits++
		} else {
			waits++
		}
		c, err := l.Accept()
		require.NoError(t, err)
		c.Close()
	}
	require.Len(t, pauses, waits)
	require.Positive(t, slices.Max(pauses))
	require.Positive(t, credits)
}

// A fromAddress is a connection from an address.
type fromAddress struct {
	net.Conn
	addr net.TCPAddr
}

func (c *fromAddress) RemoteAddr() net.Addr { return &c.addr }

// addressed gives connections of these addresses.
type addressed struct {
	readyListener
	addresses []string
}

func (l *addressed) Accept() (net.Conn, error) {
	c, _ := l.readyListener.Accept()
	from := &fromAddress{c, net.TCPAddr{IP: net.ParseIP(l.addresses[0]), Port: 1}}
	l.addresses = l.addresses[1:]
	return from, nil
}

func TestConnectionsOfSeveralCallers(t *testing.T) {
	l := newConnections(&addressed{addresses: []string{"192.0.2.1", "192.0.2.1", "192.0.2.2"}}, 10, time.Hour, nil)
	defer l.Close()
	for _, several := range []bool{false, false, true} {
		c, err := l.Accept()
		require.NoError(t, err)
		defer c.Close()
		require.Equal(t, several, l.Listener.(*givingWay).several())
	}
}

func TestClosedListenerWaitsForNothing(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := giveWay(inner, never, never)
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	time.Sleep(time.Millisecond)
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	unused := giveWay(readyListener{}, nil, nil)
	require.NoError(t, unused.Close())
	require.False(t, unused.hear())
}
