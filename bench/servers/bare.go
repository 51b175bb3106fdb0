package servers

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
)

// A bare server reads a message and writes a fixed answer: the one that the floor gave to the
// first message of that length. It shows the cost of the transport.
type bare struct {
	floor  *floor
	canned sync.Map // by the length of the request
}

// A canned answer has parts. Each is written and flushed at once.
type canned struct {
	status int
	header http.Header
	parts  [][]byte
}

func newBare(tools int) (Server, error) {
	b := &bare{floor: newFloorServer(tools)}
	return Server{
		Modern: b, Legacy: b,
		Stdio:  func(context.Context) error { return b.serve(os.Stdin, os.Stdout) },
		Memory: func() (Ask, error) { return overPipe(func(c net.Conn) { _ = b.serve(c, c) }), nil },
	}, nil
}

func (b *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// net/http needs the end of the body to be read as well.
	_, _ = r.Body.Read(make([]byte, 1))
	a := b.answer(r, body)
	for k, v := range a.header {
		w.Header()[k] = v
	}
	w.WriteHeader(a.status)
	for i, part := range a.parts {
		if i > 0 {
			_ = http.NewResponseController(w).Flush() // an error means that the client is gone
		}
		_, _ = w.Write(part)
	}
}

func (b *bare) answer(r *http.Request, body []byte) *canned {
	if a, ok := b.canned.Load(len(body)); ok {
		return a.(*canned)
	}
	rec := httptest.NewRecorder()
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.floor.ServeHTTP(rec, r)
	a := &canned{status: rec.Code, header: rec.Header().Clone(), parts: [][]byte{rec.Body.Bytes()}}
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		a.parts = bytes.SplitAfter(rec.Body.Bytes(), []byte("\n\n"))
	} else {
		a.header.Set("Content-Length", strconv.Itoa(rec.Body.Len()))
	}
	b.canned.Store(len(body), a)
	return a
}

// serve answers with canned lines. Only their ids differ, so that the client can assign them.
func (b *bare) serve(r io.Reader, w io.Writer) error {
	in := bufio.NewReaderSize(r, 1<<20)
	answers := map[int][]byte{}
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("the bare server cannot read: %w", err)
		}
		answer := answers[len(line)]
		if answer == nil {
			var out bytes.Buffer
			if err := b.floor.serve(bytes.NewReader(line), &out); err != nil {
				return err
			}
			answer = out.Bytes()
			answers[len(line)] = answer
		}
		if to, from := ID(answer), ID(line); to != nil && from != nil {
			copy(to, from)
		}
		if _, err := w.Write(answer); err != nil {
			return err
		}
	}
}

// IDWidth is the number of digits of every id.
const IDWidth = 9

// ID returns the digits of the id of a request or an answer, nil if it has none.
func ID(message []byte) []byte {
	const key = `"id":`
	at := bytes.Index(message, []byte(key))
	if at < 0 || at+len(key)+IDWidth > len(message) {
		return nil
	}
	return message[at+len(key):][:IDWidth]
}
