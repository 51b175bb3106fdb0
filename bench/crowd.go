package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A crowd is a number of connections, each with one response that does not end.
type crowd []*conn

// openers is the number of connections that are opened at the same time. More would overflow
// the queue of a listener, which then ignores them for a second.
const openers = 32

// open opens n connections and sends the request on each. ready waits for the beginning of the
// response before the next connection is opened; it may be nil.
func open(addr string, request []byte, n int, ready func(*conn) error) (c crowd, err error) {
	c = make(crowd, n)
	err = inParallel(n, func(i int) (err error) {
		if c[i], err = dial(addr, 2<<10); err != nil {
			return err
		}
		if err := c[i].setDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if ready == nil {
			_, err = c[i].net.Write(request)
			return err
		}
		status, _, err := c[i].open(request)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		if err != nil {
			return err
		}
		return ready(c[i])
	})
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c crowd) close() {
	for _, conn := range c {
		if conn != nil {
			conn.close()
		}
	}
}

// setDeadline sets the deadline of all connections.
func (c crowd) setDeadline(t time.Time) error {
	for _, conn := range c {
		if err := conn.setDeadline(t); err != nil {
			return err
		}
	}
	return nil
}

// inParallel calls f with 0 to n-1, and returns its first error.
func inParallel(n int, f func(int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range min(n, openers) {
		all.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// waitFor reads lines until one holds some text.
func (c *conn) waitFor(text string) error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if bytes.Contains(line, []byte(text)) {
			return nil
		}
	}
}

// awaitAll calls trigger and waits until all connections have read some text. It returns the
// time since the call.
func (c crowd) awaitAll(text string, trigger func() error) (time.Duration, error) {
	if err := c.setDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for _, conn := range c {
		all.Go(func() {
			if err := conn.waitFor(text); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	begin := time.Now()
	err := trigger()
	all.Wait()
	took := time.Since(begin)
	if failed := failed.Load(); err == nil && failed != nil {
		err = *failed
	}
	return took, err
}

// openSessions opens legacy sessions, many over each of a few connections, and returns
// their ids.
func openSessions(addr string, n int) (ids []string, err error) {
	conns := make(chan *conn, openers)
	defer func() {
		close(conns)
		for c := range conns {
			c.close()
		}
	}()
	for range openers {
		c, err := dial(addr, 4<<10)
		if err != nil {
			return nil, err
		}
		conns <- c
	}
	legacy := scenario{legacy: true}
	hello, ready := message{body: []byte(initialize)}, message{body: []byte(initialized)}
	first, _ := hello.http(legacy, addr, "")
	ids = make([]string, n)
	err = inParallel(n, func(i int) error {
		c := <-conns
		defer func() { conns <- c }()
		if err := c.setDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if status, err := c.roundTrip(first); err != nil || status != http.StatusOK {
			return fmt.Errorf("initialize: status %d: %.300q: %w", status, c.body, err)
		}
		ids[i] = c.session
		second, _ := ready.http(legacy, addr, ids[i])
		if status, err := c.roundTrip(second); err != nil || status/100 != 2 {
			return fmt.Errorf("notifications/initialized: status %d: %.300q: %w", status, c.body, err)
		}
		return nil
	})
	return ids, err
}

// shuffle brings ids into a random order.
func shuffle(ids []string) {
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
}

// newSessionsLoad calls many sessions, one after the other. If there are as many as callers, each caller has its own.
func newSessionsLoad(s scenario, addr string, ids []string) (*httpLoad, error) {
	l := &httpLoad{scenario: s, message: render(s), sessions: ids}
	l.message.exact = true
	for i := range s.callers {
		c, err := dial(addr, 64<<10)
		if err != nil {
			l.close()
			return nil, err
		}
		own := ids[i*len(ids)/s.callers]
		request, id := l.message.http(s, addr, own)
		// Two callers must not use the same ids or sessions.
		next := &caller{conn: c, request: request, id: id, next: firstID + i*1_000_000 + i*len(ids)/s.callers}
		if len(ids) != s.callers {
			at := bytes.Index(request, []byte(own))
			next.slot = request[at:][:len(own)]
		}
		l.callers = append(l.callers, next)
	}
	return l, nil
}

// listening returns the request for a stream of changes of the list of tools, and holding the
// call of a tool that waits.
func listening(addr string) []byte {
	return modernRequest(addr, servers.Listen, "", `"notifications":{"toolsListChanged":true}`)
}

func holding(addr string) []byte {
	return modernRequest(addr, "tools/call", servers.Hold, `"name":"`+servers.Hold+`","arguments":{}`)
}

func modernRequest(addr, method, name, params string) []byte {
	m := message{method: method, name: name}
	m.body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"_meta":{%s},%s}}`, firstID, method, modernMeta, params)
	request, _ := m.http(scenario{}, addr, "")
	return request
}
