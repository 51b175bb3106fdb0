package service

import (
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// A process that was stopped past the deadline of a read takes what the peer has sent in time. The deadline holds for
// what comes later, and for a process that runs.
func TestReadAfterTheProcessWasStopped(t *testing.T) {
	for name, tt := range map[string]struct {
		deadline func(*connection, time.Time) error
		late     time.Duration
		takes    bool
	}{
		"stopped":            {(*connection).SetReadDeadline, time.Minute, true},
		"stopped, both ways": {(*connection).SetDeadline, time.Minute, true},
		"runs":               {(*connection).SetReadDeadline, sleep - 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, peer := connected(t)
				require.NoError(t, tt.deadline(c, time.Now().Add(time.Second)))
				go func() { _, _ = peer.Write([]byte("in time")) }()
				time.Sleep(time.Second + tt.late)
				p := make([]byte, 100)
				n, err := c.Read(p)
				if !tt.takes {
					require.ErrorIs(t, err, os.ErrDeadlineExceeded)
					return
				}
				require.NoError(t, err)
				require.Equal(t, "in time", string(p[:n]))
				time.Sleep(time.Minute)
				go func() { _, _ = peer.Write([]byte("too late")) }()
				synctest.Wait()
				_, err = c.Read(p)
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			})
		})
	}
}

// A peer that has sent nothing loses its connection, and a read that is to end at once does.
func TestDeadlineOfRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := connected(t)
		began := time.Now()
		require.NoError(t, c.SetReadDeadline(began.Add(time.Second)))
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		require.NoError(t, c.SetReadDeadline(time.Unix(1, 0))) // so net/http ends a read
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
	})
}

// connected returns a connection of a listener, and its other end.
func connected(t *testing.T) (*connection, net.Conn) {
	t.Helper()
	l := newConnections(nil, 10, time.Second, func(limit string) { t.Error(limit) })
	here, peer := net.Pipe()
	c := l.add(here, l.table.Get(share.KeyOfConnection()))
	t.Cleanup(func() { peer.Close() })
	return c, peer
}
