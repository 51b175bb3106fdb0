package service

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A listener knows whether its connections end before they are answered.
func TestHangUps(t *testing.T) {
	const request = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n%s\r\n"
	asked := func(t *testing.T, c net.Conn, path, header string) {
		_, err := fmt.Fprintf(c, request, path, header)
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, len("HTTP/1.1 200 OK")))
		require.NoError(t, err)
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
		{"before the answer, with TLS", true, func(_ *testing.T, c net.Conn) { fmt.Fprintf(c, request, "/wait", "") }, true},
		{"in a stream", false, func(t *testing.T, c net.Conn) { asked(t, c, "/stream", "") }, false},
		{"after the answer", false, func(t *testing.T, c net.Conn) { asked(t, c, "/", "") }, false},
		{"after the last answer", false, func(t *testing.T, c net.Conn) { asked(t, c, "/", "Connection: close\r\n") }, false},
		{"after the answer, with TLS", true, func(t *testing.T, c net.Conn) { asked(t, c, "/", "") }, false},
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
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/stream":
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				case "/wait":
					<-r.Context().Done()
				}
			}))
			s.Listener.Close()
			s.Listener, s.Config.ConnState = l, noteState
			if c.tls {
				s.StartTLS()
			} else {
				s.Start()
			}
			t.Cleanup(s.Close)
			for range manyUnanswered {
				require.False(t, l.ended.hangUps())
				wire := dial(t, l)
				client := wire
				if c.tls {
					client = tls.Client(wire, &tls.Config{InsecureSkipVerify: true})
				}
				require.Eventually(t, func() bool { return l.places.Usage().Used == 1 }, 20*time.Second, time.Millisecond)
				c.call(t, client)
				wire.Close() // in TLS without a word
				require.Eventually(t, func() bool { return l.places.Usage().Used == 0 }, 20*time.Second, time.Millisecond)
			}
			require.Equal(t, c.hangsUp, l.ended.hangUps())
		})
	}
}
