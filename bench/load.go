package main

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// patience is the time by which a slice may exceed its length.
const patience = 30 * time.Second

// A load sends requests to one server. It must be used by one goroutine at a time.
type load interface {
	// run sends requests for the given time and returns the duration of each answer. It checks
	// every status, and one whole answer of each caller.
	run(time.Duration) ([]time.Duration, error)
	// size returns the size of the last answer in bytes.
	size() int
	close()
}

// An httpLoad has one connection, and for legacy clients one session, for each caller.
type httpLoad struct {
	scenario scenario
	message  message
	callers  []*caller
	// sessions are called one after the other; nil if each caller has its own.
	sessions []string
}

type caller struct {
	*conn
	request, id []byte // id is part of request
	slot        []byte // the session in request; nil if it is always the same
	next        int
	took        []time.Duration
}

func newHTTPLoad(s scenario, m message, addr string) (*httpLoad, error) {
	l := &httpLoad{scenario: s, message: m}
	for range s.callers {
		session := ""
		if s.legacy {
			var err error
			if session, err = openSession(addr); err != nil {
				l.close()
				return nil, err
			}
		}
		c, err := dial(addr, 64<<10)
		if err != nil {
			l.close()
			return nil, err
		}
		request, id := m.http(s, addr, session)
		l.callers = append(l.callers, &caller{conn: c, request: request, id: id, next: firstID})
	}
	return l, nil
}

func (l *httpLoad) size() int { return len(l.callers[0].body) }

func (l *httpLoad) close() {
	for _, c := range l.callers {
		c.close()
	}
}

func (l *httpLoad) run(d time.Duration) ([]time.Duration, error) {
	conns := make([]*conn, len(l.callers))
	for i, c := range l.callers {
		conns[i] = c.conn
	}
	defer poll(conns)()
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	end := time.Now().Add(d)
	for _, c := range l.callers {
		all.Go(func() {
			if err := l.ask(c, end, &failed); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	all.Wait()
	return l.took(&failed)
}

// poll lets all connections wait without sleep until undo is called. They use one core, so that
// the server has the others.
func poll(conns []*conn) (undo func()) {
	before := runtime.GOMAXPROCS(1)
	for _, c := range conns {
		c.net.poll(true)
	}
	return func() {
		for _, c := range conns {
			c.net.poll(false)
		}
		runtime.GOMAXPROCS(before)
	}
}

// took returns the durations of all callers, or the error of one of them.
func (l *httpLoad) took(failed *atomic.Pointer[error]) (took []time.Duration, err error) {
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	for _, c := range l.callers {
		took = append(took, c.took...)
	}
	return took, nil
}

// ask sends requests until the end, at least one, or until another caller has failed.
func (l *httpLoad) ask(c *caller, end time.Time, failed *atomic.Pointer[error]) error {
	c.took = c.took[:0]
	if err := c.setDeadline(end.Add(patience)); err != nil {
		return err
	}
	for failed.Load() == nil {
		now, err := l.askOnce(c, time.Now())
		if err != nil {
			return err
		}
		if !now.Before(end) {
			break
		}
	}
	return nil
}

// askOnce sends one request and returns the time at which the answer had arrived. The duration
// of the answer counts from due on.
func (l *httpLoad) askOnce(c *caller, due time.Time) (now time.Time, err error) {
	c.next++
	putID(c.id, c.next)
	if c.slot != nil {
		copy(c.slot, l.sessions[c.next%len(l.sessions)])
	}
	status, err := c.roundTrip(c.request)
	now = time.Now()
	if err != nil {
		return now, err
	}
	if status != http.StatusOK {
		return now, fmt.Errorf("status %d: %.300q", status, c.body)
	}
	c.took = append(c.took, now.Sub(due))
	if len(c.took) == 1 {
		err = l.message.check(l.scenario, c.id, c.body)
	}
	return now, err
}

// putID writes a number with as many digits as fit into id.
func putID(id []byte, n int) {
	for i := len(id) - 1; i >= 0; i-- {
		id[i] = byte('0' + n%10)
		n /= 10
	}
}

// openSession does the handshake and returns the id of the session, which may be empty.
func openSession(addr string) (string, error) {
	resp, err := post(addr, initialize, "")
	if err != nil {
		return "", fmt.Errorf("initialize: %w", err)
	}
	session := resp.Header.Get("Mcp-Session-Id")
	if _, err := post(addr, initialized, session); err != nil {
		return "", fmt.Errorf("notifications/initialized: %w", err)
	}
	return session, nil
}

func post(addr, body, session string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+servers.Legacy, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", legacyVersion)
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := client().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("status %d: %.300q", resp.StatusCode, answer)
	}
	return resp, err
}

// client returns the HTTP client for requests that are not measured. It keeps no connection.
func client() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
}
