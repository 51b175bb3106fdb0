package attack

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A response is what a server has sent for one HTTP request.
type response struct {
	status int
	header http.Header
	body   string
	answer
}

// An answer is the JSON-RPC message in a response.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result *result         `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Reason string `json:"reason"`
			Limit  string `json:"limit"`
		} `json:"data"`
	} `json:"error"`
}

type result struct {
	Content       []struct{ Text string } `json:"content"`
	IsError       bool                    `json:"isError"`
	ResultType    string                  `json:"resultType"`
	RequestState  string                  `json:"requestState"`
	InputRequests map[string]any          `json:"inputRequests"`
	TaskID        string                  `json:"taskId"`
	Status        string                  `json:"status"`
	Contents      []struct{ Text string } `json:"contents"`
}

// text is the text of a tool's result, or "".
func (a *answer) text() string {
	if a.Result == nil || len(a.Result.Content) == 0 {
		return ""
	}
	return a.Result.Content[0].Text
}

// code is the code of the error; 0 if there is none.
func (a *answer) code() int {
	if a.Error == nil {
		return 0
	}
	return a.Error.Code
}

// limit is the limit that the error names, or "".
func (a *answer) limit() string {
	if a.Error == nil {
		return ""
	}
	return a.Error.Data.Limit
}

// A wire is one TCP connection, on which a test writes the bytes of its choice.
type wire struct {
	net.Conn
	in *bufio.Reader
}

// wire connects to the MCP endpoint from an address of this machine, "" for any.
func (s *target) wire(t *testing.T, from string) *wire {
	t.Helper()
	w, err := s.dial(from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// wires connects n times from the addresses of attackers, one connection after the other is handled.
func (s *target) wires(t *testing.T, n int) iter.Seq[*wire] {
	return func(yield func(*wire) bool) {
		for i := range n {
			if !yield(s.wire(t, attackerAddress(i))) {
				return
			}
		}
	}
}

func (s *target) dial(from string) (*wire, error) {
	d := net.Dialer{Timeout: patience}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	conn, err := d.Dial("tcp", s.host)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &wire{conn, bufio.NewReader(conn)}, nil
}

// response reads one response. Its status is 0 if the server closes the connection instead.
func (w *wire) response() (r response, err error) {
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return decoded(resp, body), err
}

// decoded is the response with a body.
func decoded(resp *http.Response, body []byte) response {
	r := response{status: resp.StatusCode, header: resp.Header, body: string(body)}
	frame := body
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for line := range strings.Lines(r.body) { // the last message is the answer
			if data, ok := strings.CutPrefix(line, "data: "); ok && data != "\n" {
				frame = []byte(data)
			}
		}
	}
	_ = json.Unmarshal(frame, &r.answer) // other bodies have no answer
	return r
}

// exchange sends bytes over a connection of its own and returns all responses. After the bytes it
// sends a last request, behind which the server closes the connection; the response to that one is
// left out. If the server takes the last request for a part of what was before, it closes the
// connection later, or the test does.
func (s *target) exchange(t *testing.T, bytes string) (all []response) {
	t.Helper()
	w := s.wire(t, attacker)
	defer w.Close()
	const last = "GET /the-last-request HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(w, bytes+last); err != nil {
		t.Logf("the server has hung up while it was sent to: %v", err)
	}
	_ = w.SetReadDeadline(time.Now().Add(5 * time.Second))
	for {
		r, err := w.response()
		if err != nil {
			return all
		}
		if r.status != http.StatusNotFound || !strings.HasPrefix(r.body, "404 page not found") {
			all = append(all, r)
		}
	}
}

// A rawRequest is an HTTP request as it goes over the wire.
type rawRequest struct {
	line   string
	header []string
	body   string
}

// rawEcho is a modern call of echo as a well-behaved client sends it.
func (s *target) rawEcho(id int) rawRequest {
	return rawRequest{
		line: "POST /mcp HTTP/1.1",
		header: []string{
			"Host: " + s.host, "Content-Type: application/json", "Accept: application/json, text/event-stream",
			"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo",
		},
		body: call{tool: "echo", arguments: `{"text":"hello"}`}.frame(id, true),
	}
}

// with adds a line to the header.
func (r rawRequest) with(line string) rawRequest {
	r.header = append(append([]string(nil), r.header...), line)
	return r
}

// without removes a field from the header.
func (r rawRequest) without(name string) rawRequest {
	var kept []string
	for _, line := range r.header {
		if n, _, _ := strings.Cut(line, ":"); !strings.EqualFold(n, name) {
			kept = append(kept, line)
		}
	}
	r.header = kept
	return r
}

// set replaces a field of the header.
func (r rawRequest) set(name, value string) rawRequest {
	return r.without(name).with(name + ": " + value)
}

// chunked sends the body as it is, which is to be in chunks.
func (r rawRequest) chunked(body string) rawRequest {
	r.body = body
	return r.with("Transfer-Encoding: chunked")
}

// chunks writes a text as chunks of n bytes, without the end.
func chunks(text string, n int) string {
	var b strings.Builder
	for len(text) > 0 {
		part := text[:min(n, len(text))]
		text = text[len(part):]
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
	}
	return b.String()
}

// String is the request with a Content-Length, unless its header says how long the body is.
func (r rawRequest) String() string {
	sized := false
	for _, line := range r.header {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		sized = sized || strings.TrimSpace(name) == "content-length" || strings.TrimSpace(name) == "transfer-encoding"
	}
	if !sized {
		r = r.with(fmt.Sprintf("Content-Length: %d", len(r.body)))
	}
	return r.line + "\r\n" + strings.Join(r.header, "\r\n") + "\r\n\r\n" + r.body
}
