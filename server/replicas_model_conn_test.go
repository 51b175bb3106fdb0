package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
)

// A modelConn is an exchange of a client that reads a stream. It is the http.ResponseWriter.
type modelConn struct {
	at     *modelReplica
	take   func(id, data string) // of one event, or of an answer in JSON
	cancel context.CancelFunc
	header http.Header

	mu     sync.Mutex // guards the rest
	status int
	text   string // that has not been read
	gone   bool   // the client reads no more
	ended  bool   // the server has ended it
}

// exchange begins an exchange. What its client reads goes to take.
func (at *modelReplica) exchange(r *http.Request, take func(id, data string)) *modelConn {
	ctx, cancel := context.WithCancel(context.Background())
	x := &modelConn{at: at, take: take, cancel: cancel, header: http.Header{}}
	go func() {
		at.srv.Handler().ServeHTTP(x, r.WithContext(ctx))
		x.mu.Lock()
		x.ended = true
		if !x.gone && x.status == http.StatusOK && strings.HasPrefix(x.header.Get("Content-Type"), "application/json") {
			x.take("", x.text)
		}
		x.mu.Unlock()
		cancel()
	}()
	return x
}

// leave breaks the connection.
func (x *modelConn) leave() {
	x.mu.Lock()
	x.gone = true
	x.mu.Unlock()
	x.cancel()
}

// over reports whether the server has ended the exchange, and its status.
func (x *modelConn) over() (status int, ended bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status, x.ended
}

func (x *modelConn) Header() http.Header { return x.header }
func (x *modelConn) Flush()              {}

func (x *modelConn) WriteHeader(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status = status
}

func (x *modelConn) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone {
		return len(p), nil
	}
	if x.status == 0 {
		x.status = http.StatusOK
	}
	x.text += string(p)
	if !strings.HasPrefix(x.header.Get("Content-Type"), "text/event-stream") {
		return len(p), nil
	}
	for {
		event, rest, whole := strings.Cut(x.text, "\n\n")
		if !whole {
			return len(p), nil
		}
		x.text = rest
		id, data := "", ""
		for line := range strings.Lines(event) {
			if after, ok := strings.CutPrefix(line, "id: "); ok {
				id = strings.TrimSpace(after)
			}
			if after, ok := strings.CutPrefix(line, "data: "); ok {
				data = strings.TrimSpace(after)
			}
		}
		x.take(id, data)
	}
}
