package service

import (
	"net"
	"runtime"
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
	l := giveWay(readyListener{}, func() bool { return false })
	defer l.Close()
	turns := keepBusy(t)
	const accepted = 1000
	l.credit.Store(accepted) // it does not ask
	for range accepted {
		c, err := l.Accept()
		require.NoError(t, err)
		c.Close()
	}
	require.GreaterOrEqual(t, turns.Load(), int64(accepted/2))
}

// A new connection is not taken before the process has read what had come over the open ones, also while the
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
	l := giveWay(readyListener{}, func() bool { return false })
	defer l.Close()
	keepBusy(t)
	const accepted = 20
	for range accepted {
		_, err := client.Write([]byte{0})
		require.NoError(t, err)
		l.credit.Store(0) // it asks
		c, err := l.Accept()
		require.NoError(t, err)
		c.Close()
	}
	require.GreaterOrEqual(t, read.Load(), int64(accepted/2)) // some may be on their way over the loopback interface
}

// The pause protects other callers, and new ones get in all the same.
func TestPauseOfNewConnections(t *testing.T) {
	for _, c := range []struct {
		took    time.Duration
		several bool
		pause   time.Duration
		credit  int64
	}{
		{quickAnswer, true, 0, 0},
		{2 * quickAnswer, true, 4 * quickAnswer, 1},
		{5 * time.Millisecond, true, 10 * time.Millisecond, 15},
		{time.Second, true, longestPause, 1020},
		{5 * time.Millisecond, false, 0, 5},
	} {
		l := giveWay(readyListener{}, func() bool { return c.several })
		pause, credit := l.after(c.took)
		require.Equal(t, c.pause, pause, c)
		require.Equal(t, c.credit, credit, c)
	}
}

func TestClosedListenerWaitsForNothing(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := giveWay(inner, func() bool { return false })
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
	unused := giveWay(readyListener{}, nil)
	require.NoError(t, unused.Close())
	require.False(t, unused.poll())
}
