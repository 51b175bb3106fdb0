package server_test

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/transport"
)

// A line is a client in memory that reads all the time.
type line struct {
	*rawPipe
	s *stage
}

// pipe connects a client in memory.
func (s *stage) pipe() line {
	p := dial(s.t, s.srv)
	s.exits = append(s.exits, func() { _ = p.hangUp() })
	return line{p, s}
}

// old connects a legacy client that can be asked for everything. Its handshake is not
// recorded.
func (s *stage) old() line {
	p := s.pipe()
	p.shake()
	s.forget()
	return p
}

// shake does the handshake of a legacy client.
func (p line) shake() {
	p.ask(handshake)
	p.send(notice("notifications/initialized", ""))
}

var handshake = legacy("init", "initialize", `"protocolVersion":"2025-11-25","clientInfo":{"name":"old","version":"9"},`+
	`"capabilities":{"roots":{},"sampling":{},"elicitation":{}}`)

// frame is what a client sends for a frame of the scene.
func (s *stage) frame(f string) string {
	if !s.named || strings.Contains(f, "clientInfo") {
		return f
	}
	const version = `"io.modelcontextprotocol/protocolVersion"`
	return strings.ReplaceAll(f, version, `"io.modelcontextprotocol/clientInfo":{"name":"desk","version":"4.3.0"},`+version)
}

// forget begins the recording anew.
func (s *stage) forget() {
	synctest.Wait()
	s.spans.Reset()
	s.before = samples(s.t, s.registry)
}

// later lets a moment pass, so that spans are recorded in the order of the scene.
func later() {
	synctest.Wait()
	time.Sleep(time.Millisecond)
}

// slowly lets the time pass in which nobody but an answer is waited for.
func slowly() { time.Sleep(5 * time.Millisecond) }

func (p line) send(frames ...string) {
	p.t.Helper()
	for _, f := range frames {
		later()
		p.rawPipe.send(p.s.frame(f))
	}
	synctest.Wait()
}

func (p line) ask(frame string) string {
	p.t.Helper()
	p.send(frame)
	return p.recv()
}

// A mutePipe is a client that writes, and reads nothing unless the scene does.
type mutePipe struct {
	net.Conn
	s      *stage
	served chan error
	in     *bufio.Reader
}

// mute connects a client of which wrap may change the server's end.
func (s *stage) mute(wrap func(net.Conn) transport.Pipe) *mutePipe {
	serverEnd, clientEnd := transport.Memory()
	pipe := transport.Pipe(serverEnd)
	if wrap != nil {
		pipe = wrap(serverEnd)
	}
	p := &mutePipe{Conn: clientEnd, s: s, served: make(chan error, 1), in: bufio.NewReader(clientEnd)}
	go func() { p.served <- s.srv.ServePipe(context.Background(), pipe) }()
	s.exits = append(s.exits, func() {
		clientEnd.Close()
		<-p.served
	})
	return p
}

func (p *mutePipe) send(frames ...string) {
	p.s.t.Helper()
	for _, f := range frames {
		later()
		_, err := p.Write([]byte(p.s.frame(f) + "\n"))
		require.NoError(p.s.t, err)
	}
	synctest.Wait()
}

// halved connects a client that can close its sending side alone.
func (s *stage) halved() (in *io.PipeWriter) {
	read, in := io.Pipe()
	out, write := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.srv.ServePipe(context.Background(), halfPipe{read, write})
		write.Close()
	}()
	go func() { _, _ = io.Copy(io.Discard, out) }()
	s.exits = append(s.exits, func() {
		in.Close()
		<-served
	})
	return in
}

// A brokenPipe fails as it is told: its writes, and its reads when the peer has closed it.
type brokenPipe struct {
	net.Conn
	mu          sync.Mutex
	read, write error
}

func (b *brokenPipe) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if b.read != nil && err != nil {
		err = b.read
	}
	return n, err
}

func (b *brokenPipe) Write(p []byte) (int, error) {
	b.mu.Lock()
	err := b.write
	b.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return b.Conn.Write(p)
}

func (b *brokenPipe) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write = err
}

// A webClient speaks HTTP to the server over connections in memory.
type webClient struct {
	s      *stage
	l      *memoryListener
	client *http.Client
}

const webURL = "http://mcp.example/mcp"

// web serves HTTP; wrap is what the server's owner has put around the endpoint.
func (s *stage) web(wrap ...func(http.Handler) http.Handler) *webClient {
	l := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	h := s.srv.Handler()
	for _, w := range wrap {
		h = w(h)
	}
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	w := &webClient{s: s, l: l, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return l.dial() },
	}}}
	s.exits = append(s.exits, func() {
		synctest.Wait()
		_ = srv.Close()
		<-served
	})
	return w
}

// A memoryListener accepts the connections that its clients dial.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memoryListener) dial() (net.Conn, error) {
	serverEnd, clientEnd := net.Pipe()
	select {
	case l.conns <- webConn{serverEnd}:
		return clientEnd, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return address("198.51.100.1:80") }

type webConn struct{ net.Conn }

func (webConn) LocalAddr() net.Addr  { return address("198.51.100.1:80") }
func (webConn) RemoteAddr() net.Addr { return address("192.0.2.7:4711") }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// A webAnswer is the response to one HTTP request, which may not have come yet.
type webAnswer struct {
	s      *stage
	cancel context.CancelFunc
	done   chan struct{}
	status int
	header http.Header
	body   string
}

// start makes a request and returns at once. What has arrived is there when wait returns.
func (w *webClient) start(method, body string, headers ...string) *webAnswer {
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, method, webURL, strings.NewReader(w.s.frame(body)))
	require.NoError(w.s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	later()
	a := &webAnswer{s: w.s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		res, err := w.client.Do(req)
		if err != nil {
			return
		}
		defer res.Body.Close()
		a.status, a.header = res.StatusCode, res.Header
		body, _ := io.ReadAll(res.Body) // a body that is cut off is what some scenes want
		a.body = string(body)
	}()
	w.s.exits = append(w.s.exits, a.drop)
	synctest.Wait()
	return a
}

// wait returns when the answer is there.
func (a *webAnswer) wait() *webAnswer {
	<-a.done
	return a
}

// drop gives up the connection.
func (a *webAnswer) drop() {
	a.cancel()
	<-a.done
	synctest.Wait()
}

// do makes a request and returns its answer.
func (w *webClient) do(method, body string, headers ...string) *webAnswer {
	a := w.start(method, body, headers...).wait()
	synctest.Wait()
	return a
}

// modern are the headers of a modern request.
func modernHeaders(method, name string) []string {
	return []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + method, "Mcp-Name: " + name}
}

// call posts a modern tools/call.
func (w *webClient) call(tool string, headers ...string) *webAnswer {
	return w.do("POST", modern(1, "tools/call", call(tool, `{}`)), append(modernHeaders("tools/call", tool), headers...)...)
}

// session opens a legacy session and returns its header. The handshake is not recorded.
func (w *webClient) session() (header string) {
	w.s.t.Helper()
	header = w.shake()
	w.s.forget()
	return header
}

func (w *webClient) shake() (header string) {
	w.s.t.Helper()
	a := w.do("POST", handshake)
	require.Equal(w.s.t, 200, a.status, a.body)
	header = "Mcp-Session-Id: " + a.header.Get("Mcp-Session-Id")
	require.Equal(w.s.t, 202, w.do("POST", notice("notifications/initialized", ""), header).status)
	return header
}

// raw sends a request over a connection that nobody reads from.
func (w *webClient) raw(body string, headers ...string) net.Conn {
	conn, err := w.l.dial()
	require.NoError(w.s.t, err)
	req, err := http.NewRequest("POST", webURL, strings.NewReader(w.s.frame(body)))
	require.NoError(w.s.t, err)
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	later()
	require.NoError(w.s.t, req.Write(conn))
	w.s.exits = append(w.s.exits, func() { conn.Close() })
	synctest.Wait()
	return conn
}
