package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
)

// An httpClient is one client of the HTTP endpoint. Each has a connection pool of
// its own.
type httpClient struct {
	w       *world
	http    *http.Client
	session string // of a legacy client
}

func (w *world) httpClient() *httpClient {
	return &httpClient{w: w, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}, Timeout: 2 * patience}}
}

func (c *httpClient) close() { c.http.CloseIdleConnections() }

// request builds a POST.
func (c *httpClient) request(ctx context.Context, frame string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.w.url, strings.NewReader(frame))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	return req
}

// modern adds the headers of a modern call.
func modern(req *http.Request, tool string) *http.Request {
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "tools/call")
	req.Header.Set("Mcp-Name", tool)
	return req
}

// call sends a call and returns its one answer; nil if the connection was lost or
// the exchange ended without one. onRequest serves requests of the server's.
func (c *httpClient) call(req *http.Request, id string, onRequest func(id json.RawMessage)) (*message, int) {
	c.w.begin()
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0
	}
	defer resp.Body.Close()
	var answer *message
	each := func(frame []byte) {
		m := new(message)
		if err := json.Unmarshal(frame, m); err != nil {
			if req.Context().Err() == nil {
				c.w.fault("http: a corrupt frame: %.100s", frame)
			}
			return
		}
		switch {
		case m.Method != "" && m.ID != nil:
			if onRequest != nil {
				onRequest(m.ID)
			}
		case m.Method != "":
			if answer != nil {
				c.w.fault("http: a notification after the answer")
			}
		case answer != nil:
			c.w.fault("http: two answers in one exchange")
		default:
			answer = m
			// An exchange may end with an error that belongs to no request.
			nobodys := m.Error != nil && (m.ID == nil || string(m.ID) == "null")
			if string(m.ID) != id && !nobodys {
				c.w.fault("http: the answer to %s has the id %s", id, m.ID)
			}
		}
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		if body, err := io.ReadAll(resp.Body); err == nil && len(body) > 0 {
			each(body)
		}
		return answer, resp.StatusCode
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return answer, resp.StatusCode
		}
		if data, ok := strings.CutPrefix(string(line), "data: "); ok && data != "\n" {
			each([]byte(data))
		}
	}
}

// echo calls echo and checks the answer.
func (c *httpClient) echo(ctx context.Context, id string, isModern bool) {
	want := fmt.Sprint("text-", rand.Uint64())
	req := c.request(ctx, callFrame(id, "echo", fmt.Sprintf(`{"text":%q}`, want), isModern))
	if isModern {
		modern(req, "echo")
	}
	switch m, status := c.call(req, id, nil); {
	case ctx.Err() != nil:
	case m == nil:
		c.w.fault("http: echo got no answer, status %d", status)
	case m.text() != want && !m.refused() && (m.Error == nil || m.reason() != "session_unknown"):
		c.w.fault("http: echo got another answer: status %d, %+v %+v", status, m.Result, m.Error)
	}
}

// The modern clients.

func (w *world) modernEcho(ctx context.Context) {
	c := w.httpClient()
	defer c.close()
	for ctx.Err() == nil {
		c.echo(ctx, fmt.Sprint(rand.IntN(3)), true) // ids repeat: exchanges never meet
	}
}

func (w *world) modernMix(ctx context.Context) {
	c := w.httpClient()
	defer c.close()
	tools := []string{"panic", "goexit", "fail", "progress", "big", "nothing", "ask"}
	for ctx.Err() == nil {
		tool := tools[rand.IntN(len(tools))]
		arguments := `{}`
		if tool == "progress" || tool == "big" {
			arguments = fmt.Sprintf(`{"n":%d}`, rand.IntN(300))
		}
		m, _ := c.call(modern(c.request(ctx, callFrame("1", tool, arguments, true)), tool), "1", nil)
		if m == nil && ctx.Err() == nil {
			w.fault("http: %s got no answer", tool)
		}
	}
}

// modernVanish disconnects at some moment of a call.
func (w *world) modernVanish(ctx context.Context) {
	c := w.httpClient()
	defer c.close()
	for ctx.Err() == nil {
		tool := []string{"sleep", "stubborn"}[rand.IntN(20)/19]
		short, cancel := context.WithTimeout(ctx, rand.N(30*time.Millisecond))
		c.call(modern(c.request(short, callFrame("7", tool, `{"ms":300}`, true)), tool), "7", nil)
		cancel()
	}
}

// rawHTTP speaks HTTP without a client: it sends half a request and goes, closes
// its half after a request, or asks for much and does not read.
func (w *world) rawHTTP(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := net.Dial("tcp", w.addr)
		if err != nil {
			continue
		}
		body := callFrame("3", "big", `{"n":900000}`, true)
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json\r\n"+
			"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: big\r\nContent-Length: %d\r\n\r\n", []string{"/mcp", "/hasty"}[rand.IntN(2)], w.addr, len(body))
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		switch rand.IntN(4) {
		case 0:
			fmt.Fprint(conn, head, body[:len(body)/2])
		case 1:
			w.begin()
			fmt.Fprint(conn, head, body)
			conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
		case 2:
			w.begin()
			fmt.Fprint(conn, head, body)
			select {
			case <-time.After(hasty.WriteTimeout + 300*time.Millisecond):
			case <-ctx.Done():
			}
		default:
			w.begin()
			fmt.Fprint(conn, head, body)
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset
		}
		conn.Close()
	}
}

func (w *world) httpGarbage(ctx context.Context) {
	c := w.httpClient()
	defer c.close()
	for ctx.Err() == nil {
		if status := c.post(ctx, garbage()); status/100 == 5 && status != http.StatusServiceUnavailable {
			w.fault("http: garbage got the status %d", status)
		}
		nap(5 * time.Millisecond)
	}
}

// The legacy clients.

// initialize opens a session; false if there was no room.
func (c *httpClient) initialize(ctx context.Context, finish bool) bool {
	c.session = ""
	c.w.begin()
	resp, err := c.http.Do(c.request(ctx, initializeFrame))
	if err != nil {
		return false
	}
	readAll(resp.Body)
	resp.Body.Close()
	c.session = resp.Header.Get("Mcp-Session-Id")
	if c.session == "" {
		if resp.StatusCode/100 == 2 {
			c.w.fault("http: initialize answered without a session")
		}
		nap(50 * time.Millisecond)
		return false
	}
	return !finish || c.post(ctx, initializedFrame) == http.StatusAccepted
}

// post sends a message that gets no answer and returns the status.
func (c *httpClient) post(ctx context.Context, frame string) int {
	resp, err := c.http.Do(c.request(ctx, frame))
	isNote := strings.Contains(frame, `"method":"notifications/`)
	if err != nil {
		if isNote {
			c.w.notesUnknown.Add(1)
		}
		return 0
	}
	readAll(resp.Body)
	resp.Body.Close()
	if isNote && resp.StatusCode/100 != 2 {
		c.w.notesRefused.Add(1)
	}
	return resp.StatusCode
}

func (c *httpClient) delete(ctx context.Context) int {
	req := c.request(ctx, "")
	req.Method, req.Body, req.ContentLength = http.MethodDelete, nil, 0
	resp, err := c.http.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// legacyEcho lives through whole sessions.
func (w *world) legacyEcho(ctx context.Context) {
	c := w.httpClient()
	defer c.close()
	for ctx.Err() == nil {
		if !c.initialize(ctx, true) {
			continue
		}
		for i := 0; i < 50 && ctx.Err() == nil; i++ {
			c.echo(ctx, fmt.Sprint(i), false)
		}
		if status := c.delete(ctx); status/100 != 2 && status != http.StatusNotFound && ctx.Err() == nil {
			w.fault("http: DELETE got the status %d", status)
		}
	}
}

// legacyAsk answers the server's questions, sometimes twice or wrongly.
func (w *world) legacyAsk(ctx context.Context) {
	c := w.httpClient()
	defer c.close()
	for ctx.Err() == nil {
		if !c.initialize(ctx, true) {
			continue
		}
		for i := 0; i < 20 && ctx.Err() == nil; i++ {
			want, id := fmt.Sprintf(`{"roots":[],"n":"%d"}`, rand.Uint64()), fmt.Sprint(i)
			silent := rand.IntN(10) == 0
			m, status := c.call(c.request(ctx, callFrame(id, "ask", `{}`, false)), id, func(asked json.RawMessage) {
				if silent { // and cancels instead
					c.post(ctx, cancelFrame(id))
					return
				}
				c.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":9%s,"result":{}}`, asked))
				for range 1 + rand.IntN(2) {
					c.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked, want))
				}
			})
			if !silent && ctx.Err() == nil && m != nil && m.Result != nil && !m.Result.IsError && m.text() != want {
				w.fault("http: ask got another answer: %d %+v", status, m)
			}
			if silent && m != nil && m.Result != nil && !m.Result.IsError {
				w.fault("http: a cancelled ask was answered")
			}
		}
		c.delete(ctx)
	}
}

// legacyCancel cancels its calls over another connection.
func (w *world) legacyCancel(ctx context.Context) {
	c := w.httpClient()
	defer c.close()
	for ctx.Err() == nil {
		if !c.initialize(ctx, true) {
			continue
		}
		for i := 0; i < 20 && ctx.Err() == nil; i++ {
			id := fmt.Sprint(i)
			done := make(chan struct{})
			go func() {
				defer close(done)
				nap(10 * time.Millisecond)
				c.post(ctx, cancelFrame(id))
			}()
			m, _ := c.call(c.request(ctx, callFrame(id, "sleep", `{"ms":60000}`, false)), id, nil)
			<-done
			if m != nil && m.Result != nil && !m.Result.IsError {
				w.fault("http: a cancelled sleep got a result")
			}
		}
		c.delete(ctx)
	}
}

// legacyDrop loses exchanges and streams, deletes sessions under running calls,
// uses an id twice, or falls asleep.
func (w *world) legacyDrop(ctx context.Context) {
	c := w.httpClient()
	defer c.close()
	for ctx.Err() == nil {
		if !c.initialize(ctx, rand.IntN(4) > 0) {
			continue
		}
		switch rand.IntN(5) {
		case 0: // drop exchanges, the calls go on
			for range 10 {
				short, cancel := context.WithTimeout(ctx, rand.N(10*time.Millisecond))
				id := fmt.Sprint(rand.Int())
				c.call(c.request(short, callFrame(id, "progress", `{"n":100}`, false)), id, nil)
				cancel()
			}
		case 1: // open and drop streams
			for range 5 {
				short, cancel := context.WithTimeout(ctx, rand.N(50*time.Millisecond))
				req := c.request(short, "")
				req.Method, req.Body, req.ContentLength = http.MethodGet, nil, 0
				if resp, err := c.http.Do(req); err == nil {
					readAll(resp.Body)
					resp.Body.Close()
				}
				cancel()
			}
		case 2: // delete under a call
			go func() {
				nap(20 * time.Millisecond)
				c.delete(ctx)
			}()
			if m, _ := c.call(c.request(ctx, callFrame(`"d"`, "sleep", `{"ms":60000}`, false)), `"d"`, nil); m != nil && m.Result != nil && !m.Result.IsError {
				w.fault("http: a sleep in a deleted session got a result")
			}
		case 3: // one id twice at the same time
			answers := make(chan int, 2)
			for range 2 {
				go func() {
					_, status := c.call(c.request(ctx, callFrame(`1`, "sleep", `{"ms":30}`, false)), `1`, nil)
					answers <- status
				}()
			}
			<-answers
			<-answers
		default: // sleep until the session is gone
			select {
			case <-time.After(patient.SessionIdle + 700*time.Millisecond):
			case <-ctx.Done():
				return
			}
			if status := c.post(ctx, callFrame(`1`, "echo", `{"text":""}`, false)); status != http.StatusNotFound && status != 0 {
				w.fault("http: an idle session still lives: %d", status)
			}
			w.begin()
		}
	}
}
