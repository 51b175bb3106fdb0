package attack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The addresses of callers. All are of this machine.
const (
	bystanders = "127.0.0.2"
	attacker   = "127.0.0.66"
)

// attackerAddress is one of four addresses of attackers.
func attackerAddress(i int) string { return fmt.Sprintf("127.0.0.%d", 66+i%4) }

const modernVersion = "2026-07-28"

// A call is a tools/call, or a request with another method.
type call struct {
	tool      string
	arguments string // JSON
	method    string // tools/call if empty
	params    string // JSON members of params, instead of tool and arguments
	name      string // the header Mcp-Name of another method
	extra     string // further JSON members of params
	extension bool   // declares the tasks extension
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"attack","version":"0"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}%s}}`

// frame is the call as a message with an id. id is a number, a string, or raw JSON.
func (c call) frame(id any, modern bool) string {
	raw, ok := id.(json.RawMessage)
	if !ok {
		raw, _ = json.Marshal(id) // numbers and strings
	}
	params := c.params
	if c.method == "" {
		arguments := c.arguments
		if arguments == "" {
			arguments = "{}"
		}
		params = fmt.Sprintf(`"name":%q,"arguments":%s`, c.tool, arguments)
	}
	if c.extra != "" {
		params += "," + c.extra
	}
	if modern {
		if params != "" {
			params += ","
		}
		tasks := ""
		if c.extension {
			tasks = `,"extensions":{"io.modelcontextprotocol/tasks":{}}`
		}
		params += fmt.Sprintf(modernMeta, tasks)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, raw, c.methodName(), params)
}

func (c call) methodName() string {
	if c.method == "" {
		return "tools/call"
	}
	return c.method
}

// header has the fields of a call in the modern era.
func (c call) header() http.Header {
	h := plainHeader()
	h.Set("MCP-Protocol-Version", modernVersion)
	h.Set("Mcp-Method", c.methodName())
	if name := cmp.Or(c.tool, c.name); name != "" {
		h.Set("Mcp-Name", "=?base64?"+base64.StdEncoding.EncodeToString([]byte(name))+"?=")
	}
	return h
}

func plainHeader() http.Header {
	return http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
}

// A caller is a client with an address, and with a name if it says who it is.
type caller struct {
	s       *target
	name    string
	session string // of the legacy era
	http    *http.Client
}

// caller returns a client of the server. name may be "".
func (s *target) caller(t testing.TB, address, name string) *caller {
	c := s.client(address, name)
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func (s *target) client(address, name string) *caller {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, DisableCompression: true, TLSClientConfig: s.tls}
	return &caller{s: s, name: name, http: &http.Client{Transport: transport}}
}

// send sends one HTTP request.
func (c *caller) send(ctx context.Context, method string, header http.Header, body string) (response, error) {
	req, err := c.request(ctx, method, header, body)
	if err != nil {
		return response{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = io.Copy(&b, resp.Body)
	return decoded(resp, b.Bytes()), err
}

func (c *caller) request(ctx context.Context, method string, header http.Header, body string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.s.mcp, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	switch {
	case c.name == "":
	case c.s.identify != nil:
		c.s.identify(req.Header, c.name)
	default:
		req.Header.Set("Authorization", "Bearer "+c.name)
	}
	return req, nil
}

// must sends a request that is to be answered in whatever way.
func (c *caller) must(t *testing.T, method string, header http.Header, body string) response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := c.send(ctx, method, header, body)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return r
}

// modern sends a call in the modern era.
func (c *caller) modern(t *testing.T, id any, what call) response {
	t.Helper()
	return c.must(t, http.MethodPost, what.header(), what.frame(id, true))
}

// legacy sends a call in the session.
func (c *caller) legacy(t *testing.T, id any, what call) response {
	t.Helper()
	return c.must(t, http.MethodPost, c.sessionHeader(), what.frame(id, false))
}

func (c *caller) sessionHeader() http.Header {
	h := plainHeader()
	h.Set("Mcp-Session-Id", c.session)
	return h
}

const initializeFrame = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"attack","version":"0"}}}`

// initialize opens a session, and finishes the handshake.
func (c *caller) initialize(t *testing.T) {
	t.Helper()
	c.initializeWith(t, initializeFrame)
}

// initializeOldest is initialize with the revision that has batches.
func (c *caller) initializeOldest(t *testing.T) {
	t.Helper()
	c.initializeWith(t, strings.Replace(initializeFrame, "2025-11-25", "2025-03-26", 1))
}

func (c *caller) initializeWith(t *testing.T, frame string) {
	t.Helper()
	r := c.must(t, http.MethodPost, plainHeader(), frame)
	if c.session = r.header.Get("Mcp-Session-Id"); r.status != http.StatusOK || c.session == "" {
		t.Fatalf("initialize: %d %s", r.status, r.body)
	}
	c.notify(t, `"notifications/initialized","params":{}`)
}

// notify sends a notification in the session.
func (c *caller) notify(t *testing.T, methodAndParams string) {
	t.Helper()
	r := c.must(t, http.MethodPost, c.sessionHeader(), `{"jsonrpc":"2.0","method":`+methodAndParams+`}`)
	if r.status != http.StatusAccepted {
		t.Fatalf("%s: %d %s", methodAndParams, r.status, r.body)
	}
}

// A pending is a request whose answer has not come.
type pending struct {
	got    chan response // closed without a response if the exchange broke
	cancel context.CancelFunc
}

// begin sends a request and does not wait for its answer.
func (c *caller) begin(t *testing.T, header http.Header, body string) *pending {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &pending{got: make(chan response, 1), cancel: cancel}
	go func() {
		defer close(p.got)
		if r, err := c.send(ctx, http.MethodPost, header, body); err == nil {
			p.got <- r
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range p.got {
		}
	})
	return p
}

// wait waits for the answer.
func (p *pending) wait(t *testing.T) response {
	t.Helper()
	select {
	case r, ok := <-p.got:
		if !ok {
			t.Fatal("the exchange ended without an answer")
		}
		return r
	case <-time.After(patience):
		t.Fatal("no answer")
	}
	return response{}
}

// unanswered reports whether the request still runs.
func (p *pending) unanswered() bool {
	select {
	case <-p.got:
		return false
	default:
		return true
	}
}

// quote writes a text as JSON.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // every string can be written
	}
	return string(b)
}
