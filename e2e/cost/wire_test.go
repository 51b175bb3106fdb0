//go:build unix

package cost

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// A wire is a connection to the server through net/http, for requests whose headers are read from it.
type wire struct {
	address string
	conn    net.Conn
	in      *bufio.Reader
}

// maxHeaderBytes is the default of package service.
const maxHeaderBytes = 16 << 10

// listen starts a listener.
func (w *wire) listen(tb testing.TB, handler http.Handler) {
	l := httptest.NewUnstartedServer(handler)
	l.Config.MaxHeaderBytes = maxHeaderBytes
	l.Start()
	w.address = l.Listener.Addr().String()
	tb.Cleanup(func() {
		w.close()
		l.Close()
	})
}

// send sends a request and reads its answer. It returns the status.
func (w *wire) send(tb testing.TB, text string) int {
	if w.conn == nil {
		var err error
		w.conn, err = net.Dial("tcp", w.address)
		require.NoError(tb, err)
		w.in = bufio.NewReader(w.conn)
	}
	_, _ = io.WriteString(w.conn, text) // the server may refuse it before its end
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		w.close() // a reset overtakes the answer to what was refused
		return 0
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err != nil || resp.Close {
		w.close()
	}
	return resp.StatusCode
}

func (w *wire) close() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}
