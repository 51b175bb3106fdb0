package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what must happen; nothing is asserted about how fast it does.
const patience = 30 * time.Second

// A running is a service.Run under test.
type running struct {
	service.Endpoints
	stop   func() // ends its context
	done   chan struct{}
	err    error // when done is closed
	stderr *syncBuffer
	client *http.Client
}

// start runs srv on free ports of the loopback interface until the test ends.
func start(t *testing.T, srv *server.Server, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{
		stop: cancel, done: make(chan struct{}), stderr: &syncBuffer{},
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience},
	}
	ready := make(chan service.Endpoints, 1)
	go func() {
		defer close(r.done)
		r.err = service.Run(ctx, srv, append(quiet(args...), service.WithStderr(r.stderr),
			service.WithListening(func(e service.Endpoints) { ready <- e }))...)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	select {
	case r.Endpoints = <-ready:
	case <-r.done:
		t.Fatalf("Run ended with %v; stderr:\n%s", r.err, r.stderr)
	}
	return r
}

// quiet returns options that keep a Run away from this process's arguments,
// environment, output and fixed ports.
func quiet(args ...string) []service.Option {
	args = append([]string{"--addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"}, args...)
	return []service.Option{
		service.WithCommand("testing"), service.WithArgs(args), service.WithGetenv(func(string) string { return "" }),
		service.WithStdout(io.Discard), service.WithStderr(io.Discard),
	}
}

// wait returns what Run returned.
func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		t.Fatalf("Run does not end; stderr:\n%s", r.stderr)
		return nil
	}
}

// get asks the admin listener.
func (r *running) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	resp, err := r.client.Get(r.Admin + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// An answer is what came back from a call.
type answer struct {
	status int
	header http.Header
	close  bool // the connection ends with the answer
	Error  *struct{ Data struct{ Reason string } }
	Result struct {
		IsError bool
		Content []struct{ Text string }
	}
	err error
}

func (a answer) text() string {
	if len(a.Result.Content) == 0 {
		return ""
	}
	return a.Result.Content[0].Text
}

// call calls a tool as a modern client does.
func (r *running) call(tool, arguments string, change ...func(*http.Request)) (a answer) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		tool, arguments)
	req, err := http.NewRequest(http.MethodPost, r.MCP, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		req.Header.Set(name, value)
	}
	for _, c := range change {
		c(req)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a.status, a.header, a.close = resp.StatusCode, resp.Header, resp.Close
	a.err = json.NewDecoder(resp.Body).Decode(&a)
	return a
}

// A gate holds a tool's handler until it is opened.
type gate struct {
	entered chan context.Context
	open    chan struct{}
}

// newGated returns a server with the tool echo, and the tool gated, whose handler
// waits for its gate and, unless it is stubborn, for its context.
func newGated(t *testing.T, stubborn bool, opts ...server.Option) (*server.Server, *gate) {
	t.Helper()
	srv := server.New("testing", "1.2.3", opts...)
	server.AddTool(srv, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	g := &gate{entered: make(chan context.Context, 1), open: make(chan struct{})}
	server.AddTool(srv, server.Tool{Name: "gated"}, func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		g.entered <- ctx
		if stubborn {
			<-g.open
			return "opened", nil
		}
		select {
		case <-g.open:
			return "opened", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	return srv, g
}

// enter calls the tool gated and waits until its handler runs.
func (r *running) enter(t *testing.T, g *gate) (handler context.Context, result <-chan answer) {
	t.Helper()
	answers := make(chan answer, 1)
	go func() { answers <- r.call("gated", "{}") }()
	select {
	case ctx := <-g.entered:
		return ctx, answers
	case a := <-answers:
		t.Fatalf("the call ended at once: %+v", a)
	}
	return nil, nil
}

// syncBuffer is a bytes.Buffer for several goroutines.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
