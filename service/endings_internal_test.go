package service

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A listener knows whether its connections end before they are answered.
func TestListenerKnowsOfHangUps(t *testing.T) {
	const request = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n%s\r\n"
	asked := func(t *testing.T, c net.Conn, path, header string) {
		_, err := fmt.Fprintf(c, request, path, header)
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	for _, c := range []struct {
		title   string
		tls     bool
		call    func(*testing.T, net.Conn)
		hangsUp bool
	}{
		{"without a request", false, func(*testing.T, net.Conn) {}, true},
		{"in a head", false, func(_ *testing.T, c net.Conn) { fmt.Fprint(c, "POST / HTTP/1.1\r\n") }, true},
		{"before the answer", false, func(_ *testing.T, c net.Conn) { fmt.Fprintf(c, request, "/wait", "") }, true},
		{"before the second answer", false, func(t *testing.T, c net.Conn) {
			asked(t, c, "/", "")
			fmt.Fprintf(c, request, "/wait", "")
		}, true},
		{"with TLS, before the answer", true, func(_ *testing.T, c net.Conn) { fmt.Fprintf(c, request, "/wait", "") }, true},
		{"with TLS, without a request", true, func(t *testing.T, c net.Conn) { require.NoError(t, c.(*tls.Conn).Handshake()) }, true},
		{"with TLS, before the answer, with a goodbye", true, func(_ *testing.T, c net.Conn) {
			fmt.Fprintf(c, request, "/wait", "")
			c.Close()
		}, true},
		{"in a stream", false, func(t *testing.T, c net.Conn) { asked(t, c, "/stream", "") }, false},
		{"after the answer", false, func(t *testing.T, c net.Conn) { asked(t, c, "/", "") }, false},
		{"after the last answer", false, func(t *testing.T, c net.Conn) { asked(t, c, "/", "Connection: close\r\n") }, false},
		{"with TLS, after the answer", true, func(t *testing.T, c net.Conn) { asked(t, c, "/", "") }, false},
		{"after what is no request", false, func(t *testing.T, c net.Conn) {
			fmt.Fprint(c, "what\r\n\r\n")
			_, err := io.ReadAll(c)
			require.NoError(t, err)
		}, false},
	} {
		t.Run(c.title, func(t *testing.T) {
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			l := newConnections(inner, 100, time.Hour, nil)
			began := time.Now()
			l.ended.now = func() time.Time { return began } // nothing is forgotten
			s := httptest.NewUnstartedServer(noteGone(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/stream":
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				case "/wait":
					<-r.Context().Done()
				}
			})))
			s.Listener.Close()
			s.Listener, s.Config.ConnState, s.Config.ConnContext = l, noteState, withConnection
			if c.tls {
				s.StartTLS()
			} else {
				s.Start()
			}
			t.Cleanup(s.Close)
			for range manyUnanswered {
				require.False(t, l.Listener.(*givingWay).hangUps())
				wire := dial(t, l)
				client := wire
				if c.tls {
					client = tls.Client(wire, &tls.Config{InsecureSkipVerify: true})
				}
				require.Eventually(t, func() bool { return l.places.Usage().Used == 1 }, 20*time.Second, time.Millisecond)
				c.call(t, client)
				wire.Close() // with TLS without a word
				require.Eventually(t, func() bool { return l.places.Usage().Used == 0 }, 20*time.Second, time.Millisecond)
			}
			require.Equal(t, c.hangsUp, l.Listener.(*givingWay).hangUps())
		})
	}
}

// Of the last 64 endings a quarter must be hang-ups, and all are forgotten in a second without one.
func TestHangUpsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := endings{now: time.Now}
		note := func(n int, answered bool) {
			for range n {
				e.note(answered)
			}
		}
		note(manyUnanswered-1, false)
		require.False(t, e.hangUps())
		note(1, false)
		require.True(t, e.hangUps())
		note(64-manyUnanswered, true)
		require.True(t, e.hangUps())
		note(1, true)
		require.False(t, e.hangUps())
		note(64, false)
		time.Sleep(remembered)
		require.True(t, e.hangUps())
		time.Sleep(time.Nanosecond)
		require.False(t, e.hangUps())
		for range 64 { // the health checks of a server that nobody uses
			time.Sleep(remembered + 1)
			e.note(false)
			require.False(t, e.hangUps())
		}
	})
}
