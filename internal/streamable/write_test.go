package streamable_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
)

// A client that does not read is disconnected after the write time-out, also if it gets only
// responses without a request.
func TestWritesWithoutRequestAreBounded(t *testing.T) {
	for name, head := range map[string]string{
		"accepted notification": "POST / HTTP/1.1\r\nMcp-Protocol-Version: 2026-07-28\r\n",
		"refused method":        "PUT / HTTP/1.1\r\n",
		"refused host":          "POST / HTTP/1.1\r\nOrigin: https://evil.example\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			const timeout = 200 * time.Millisecond
			f := newFake(t, limits.Limits{WriteTimeout: timeout, BodyTimeout: timeout})
			closed := make(chan struct{})
			srv := httptest.NewUnstartedServer(streamable.New(f.Core, streamable.Config{}))
			srv.Config.ConnState = func(c net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					_ = c.(*net.TCPConn).SetWriteBuffer(4096)
				case http.StateClosed:
					close(closed)
				}
			}
			srv.Start()
			defer srv.Close()
			c, err := net.Dial("tcp", srv.Listener.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
			body := `{"jsonrpc":"2.0","method":"notifications/x"}`
			request := fmt.Sprintf("%sHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				for w := bufio.NewWriter(c); err == nil; {
					_, err = io.WriteString(w, request)
				}
			}()
			select {
			case <-closed:
			case <-time.After(20 * time.Second):
				t.Error("the connection lives on")
			}
			c.Close()
			<-sent
		})
	}
}

// A write deadline ends with its response: a connection that is idle for longer serves the next
// request.
func TestWriteDeadlineEndsWithItsResponse(t *testing.T) {
	const timeout = 50 * time.Millisecond
	e := newEndpoint(t, http1, limits.Limits{WriteTimeout: timeout}, streamable.Config{})
	c, err := net.Dial("tcp", e.srv.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	in := bufio.NewReader(c)
	for range 2 {
		_, err = io.WriteString(c, "PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		require.NoError(t, err)
		res, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, 405, res.StatusCode)
		require.EqualValues(t, len(body), res.ContentLength)
		time.Sleep(2 * timeout)
	}
}

// The WriteTimeout of an http.Server begins with the head of a request. If the body comes later
// than that, the answer is still sent, because the endpoint sets its own deadline.
func TestWriteTimeoutOfTheServerDoesNotCutAnswers(t *testing.T) {
	f := newFake(t, limits.Limits{})
	srv := httptest.NewUnstartedServer(streamable.New(f.Core, streamable.Config{}))
	srv.Config.WriteTimeout = 20 * time.Millisecond
	srv.Start()
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	body := modern(1, "echo")
	head := "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
	for _, h := range modernHeaders("tools/call", "echo") {
		head += string(h) + "\r\n"
	}
	_, err = fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body[:10])
	require.NoError(t, err)
	time.Sleep(2 * srv.Config.WriteTimeout)
	_, err = io.WriteString(c, body[10:])
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// An exchange that is silent for longer than a write may take goes on: the time is that of writes. Over HTTP/2 a deadline
// resets the response whenever it passes.
func TestSilenceMayLastLongerThanAWrite(t *testing.T) {
	const timeout = 2 * time.Second // a busy machine takes no longer for a write
	silent := func(e *endpoint, times int) {
		for range times {
			<-e.Started
			time.Sleep(timeout * 5 / 4)
			e.Release <- struct{}{}
		}
	}
	for name, test := range map[string]func(t *testing.T, e *endpoint){
		"a server with a time of its own": func(t *testing.T, e *endpoint) {
			srv := httptest.NewUnstartedServer(streamable.New(e.Core, streamable.Config{}))
			srv.Config.WriteTimeout = timeout
			if srv.EnableHTTP2 = e.srv.EnableHTTP2; srv.EnableHTTP2 {
				srv.StartTLS()
			} else {
				srv.Start()
			}
			defer srv.Close()
			e = &endpoint{fake: e.fake, t: t, srv: srv}
			go silent(e, 1)
			_, body := e.call("wait")
			require.Equal(t, answer(1, "wait"), body)
		},
		"events": func(t *testing.T, e *endpoint) {
			go silent(e, 2)
			_, body := e.call("step:2")
			require.Contains(t, body, answer(1, "step:2"))
		},
		"an answer to a body that was slow": func(t *testing.T, e *endpoint) {
			go silent(e, 1)
			body := modern(1, "wait")
			in, out := io.Pipe()
			go func() {
				_, _ = io.WriteString(out, body[:10])
				time.Sleep(timeout / 20)
				_, _ = io.WriteString(out, body[10:])
				out.Close()
			}()
			req := e.request(t.Context(), "POST", "", append(modernHeaders("tools/call", "wait"), "Accept: application/json")...)
			req.Body, req.ContentLength = in, int64(len(body))
			_, got := e.do(req)
			require.Equal(t, answer(1, "wait"), got)
		},
		"GET": func(t *testing.T, e *endpoint) {
			sid := e.session()
			c := e.connect("GET", "", sid)
			time.Sleep(timeout * 5 / 4)
			s := e.Core.Session(strings.TrimPrefix(sid, "Mcp-Session-Id: "), nil)
			require.NoError(t, s.Notify(t.Context(), "notifications/x", []byte(`{}`), ""))
			event, err := c.next()
			require.NoError(t, err)
			require.Contains(t, event.data, "notifications/x")
			c.drop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachProtocol(t, func(t *testing.T, proto protocol) {
				t.Parallel() // they wait
				test(t, newEndpoint(t, proto, limits.Limits{WriteTimeout: timeout, KeepAlive: time.Hour}, streamable.Config{}))
			})
		})
	}
}
