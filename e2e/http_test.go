package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An answer is the response to a POST.
type answer struct {
	message           // the last message: the response
	events  []message // the messages before it
	status  int
	header  http.Header
	body    string
}

// httpClient returns a client that shares no connections with other tests. Idle connections of
// other tests would outlive their servers.
func httpClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// headers returns those of the request.
func (r request) headers() http.Header {
	h := plainHeaders()
	if r.legacy {
		return h
	}
	h.Set("MCP-Protocol-Version", modernVersion)
	h.Set("Mcp-Method", r.method)
	if name, ok := r.params["name"].(string); ok {
		h.Set("Mcp-Name", name)
	}
	return h
}

func plainHeaders() http.Header {
	return http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/event-stream"},
	}
}

// post sends a request and waits for its answer.
func (s *server) post(t *testing.T, r request) answer {
	t.Helper()
	return s.send(t, http.MethodPost, r.headers(), r.frame())
}

// send sends any HTTP request to the MCP endpoint.
func (s *server) send(t *testing.T, method string, header http.Header, body string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // t.Context has ended during the clean-up
	defer cancel()
	a, err := s.trySend(ctx, httpClient(t), method, header, body)
	if err != nil {
		t.Fatalf("%s: %v", s.mcp, err)
	}
	a.decode(t)
	return a
}

// decode reads the messages of an answer.
func (a *answer) decode(t *testing.T) {
	t.Helper()
	if a.body != "" && a.isJSON() {
		a.message = decode(t, a.body)
	}
	for _, data := range a.eventData() {
		a.events = append(a.events, decode(t, data))
	}
	if n := len(a.events); n > 0 {
		a.message, a.events = a.events[n-1], a.events[:n-1]
	}
}

func (a *answer) isJSON() bool {
	return strings.HasPrefix(a.header.Get("Content-Type"), "application/json")
}

// eventData returns the data of the events of an event stream.
func (a *answer) eventData() (all []string) {
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		return nil
	}
	in := bufio.NewScanner(strings.NewReader(a.body))
	in.Buffer(nil, len(a.body)+1)
	for in.Scan() {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && data != "" {
			all = append(all, data)
		}
	}
	return all
}

func (s *server) trySend(ctx context.Context, c *http.Client, method string, header http.Header, body string) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, s.mcp, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	req.Header = header
	resp, err := c.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(b)}, err
}

// A pending is a POST that has not been answered.
type pending struct {
	answer chan answer // closed after the answer, or without one
	drop   context.CancelFunc
}

// begin sends a request without waiting for its answer.
func (s *server) begin(t *testing.T, header http.Header, body string) *pending {
	t.Helper()
	return s.beginWith(t, httpClient(t), header, body)
}

// beginWith is begin with a client.
func (s *server) beginWith(t *testing.T, client *http.Client, header http.Header, body string) *pending {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &pending{answer: make(chan answer, 1), drop: cancel}
	go func() {
		defer close(p.answer)
		if a, err := s.trySend(ctx, client, http.MethodPost, header, body); err == nil {
			p.answer <- a
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range p.answer {
		}
	})
	return p
}

// wait waits for the answer.
func (p *pending) wait(t *testing.T) answer {
	t.Helper()
	select {
	case a, ok := <-p.answer:
		if !ok {
			t.Fatal("the connection ended without an answer")
		}
		a.decode(t)
		return a
	case <-time.After(3 * patience):
		t.Fatalf("no answer after %v", 3*patience)
	}
	return answer{}
}

// A legacySession is a session over HTTP.
type legacySession struct {
	*server
	id string
}

// initialize opens a legacy session of a client without capabilities.
func (s *server) initialize(t *testing.T) *legacySession {
	t.Helper()
	return s.initializeWith(t, object{})
}

// initializeWith opens a legacy session of a client with capabilities.
func (s *server) initializeWith(t *testing.T, capabilities object) *legacySession {
	t.Helper()
	r := initializeRequest()
	r.params["capabilities"] = capabilities
	a := s.post(t, r)
	session := &legacySession{server: s, id: a.header.Get("Mcp-Session-Id")}
	if a.status != http.StatusOK || session.id == "" || a.Result == nil || a.Result.ProtocolVersion != legacyVersion {
		t.Fatalf("initialize: %d %s", a.status, a.body)
	}
	if a := s.send(t, http.MethodPost, session.headers(), request{method: "notifications/initialized", legacy: true}.frame()); a.status != http.StatusAccepted {
		t.Fatalf("notifications/initialized: %d %s", a.status, a.body)
	}
	t.Cleanup(func() {
		if s.running() {
			s.send(t, http.MethodDelete, session.headers(), "")
		}
	})
	return session
}

func initializeRequest() request {
	return request{id: "init", method: "initialize", legacy: true, params: object{
		"protocolVersion": legacyVersion, "capabilities": object{}, "clientInfo": object{"name": "raw", "version": "0.1"},
	}}
}

func (l *legacySession) headers() http.Header {
	h := plainHeaders()
	h.Set("Mcp-Session-Id", l.id)
	h.Set("MCP-Protocol-Version", legacyVersion)
	return h
}

// at returns the session at another server.
func (l *legacySession) at(s *server) *legacySession { return &legacySession{server: s, id: l.id} }

// call sends a request in the session.
func (l *legacySession) ask(t *testing.T, r request) answer {
	t.Helper()
	return l.send(t, http.MethodPost, l.headers(), r.inLegacy().frame())
}

// tell sends a message without an answer in the session.
func (l *legacySession) tell(t *testing.T, body string) {
	t.Helper()
	if a := l.send(t, http.MethodPost, l.headers(), body); a.status != http.StatusAccepted {
		t.Fatalf("%s: %d %s", body, a.status, a.body)
	}
}
