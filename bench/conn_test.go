package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One connection reads the responses of net/http in all their forms.
func TestConnReadsEveryFormOfResponse(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	responses := []struct {
		status int
		body   []byte
		write  func(http.ResponseWriter)
	}{
		{200, []byte("short"), func(w http.ResponseWriter) { io.WriteString(w, "short") }},
		{202, nil, func(w http.ResponseWriter) { w.WriteHeader(202) }},
		{200, big, func(w http.ResponseWriter) { w.Write(big) }}, // chunked
		{200, big, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(len(big)))
			w.Write(big)
		}},
		{200, []byte("ab"), func(w http.ResponseWriter) {
			io.WriteString(w, "a")
			http.NewResponseController(w).Flush()
			io.WriteString(w, "b")
		}},
		{404, []byte("no\n"), func(w http.ResponseWriter) { http.Error(w, "no", 404) }},
	}
	next := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		responses[next].write(w)
	}))
	defer srv.Close()
	c, err := dial(srv.Listener.Addr().String(), 4<<10)
	require.NoError(t, err)
	defer c.close()
	for _, polling := range []bool{false, true, false} {
		c.net.poll(polling)
		for i, want := range responses {
			next = i
			status, err := c.roundTrip([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"))
			require.NoError(t, err, i)
			require.Equal(t, want.status, status, i)
			require.True(t, bytes.Equal(want.body, c.body), "response %d, polling %t: %.80q", i, polling, c.body)
		}
	}
}

// A poll of a server that does not answer ends.
func TestPollHasADeadline(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for _, polling := range []bool{false, true} {
		c, err := dial(l.Addr().String(), 4<<10)
		require.NoError(t, err)
		c.net.poll(polling)
		require.NoError(t, c.setDeadline(time.Now().Add(10*time.Millisecond)))
		_, err = c.roundTrip([]byte("ask"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "polling: %t", polling)
		c.close()
	}
}

func TestRoundTripFails(t *testing.T) {
	for _, response := range []string{
		"",
		"SSH-2.0-OpenSSH\r\n",
		"HTTP/1.1 abc\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		for _, polling := range []bool{false, true} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			served := make(chan error, 1)
			go func() {
				c, err := l.Accept()
				if err == nil {
					io.ReadFull(c, make([]byte, 3))
					io.WriteString(c, response)
					err = c.Close()
				}
				served <- err
			}()
			c, err := dial(l.Addr().String(), 4<<10)
			require.NoError(t, err)
			c.net.poll(polling)
			_, err = c.roundTrip([]byte("ask"))
			require.Error(t, err, "%q, polling: %t", response, polling)
			c.close()
			require.NoError(t, <-served)
			l.Close()
		}
	}
}
