package streamable_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session/sessiontest"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	fake = sessiontest.Fake
	text = sessiontest.Text
)

var (
	newFake, newFakeOf = sessiontest.New, sessiontest.NewOf
	dropped            = sessiontest.Dropped
	modern, legacy     = sessiontest.Modern, sessiontest.Legacy
	answer, failure    = sessiontest.Answer, sessiontest.Failure
	batch, nullFailure = sessiontest.Batch, sessiontest.NullFailure
)

// An endpoint is the HTTP endpoint of a fake behind a real listener.
type endpoint struct {
	*fake
	t   *testing.T
	srv *httptest.Server
	// left is sent to when ServeHTTP has returned.
	left chan struct{}
}

type protocol int

const (
	http1 protocol = 1
	http2 protocol = 2
)

func (p protocol) String() string { return fmt.Sprintf("HTTP %d", int(p)) }

func newEndpoint(t *testing.T, proto protocol, limits limits.Limits, cfg streamable.Config) *endpoint {
	t.Helper()
	return newEndpointOf(t, newFake(t, limits), proto, cfg)
}

// newEndpointOf returns the endpoint of a fake.
func newEndpointOf(t *testing.T, f *fake, proto protocol, cfg streamable.Config) *endpoint {
	t.Helper()
	e := &endpoint{fake: f, t: t, left: make(chan struct{}, 1000)}
	h := streamable.New(e.Core, cfg)
	e.srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { e.left <- struct{}{} }()
		h.ServeHTTP(w, r)
	}))
	if proto == http2 {
		e.srv.EnableHTTP2 = true
		e.srv.StartTLS()
	} else {
		e.srv.Start()
	}
	t.Cleanup(e.srv.Close)
	return e
}

// A header is one line "Name: value" that is added to a request, or "-Name" for
// one that is taken away. "Name! value" adds a second value.
type header = string

func (e *endpoint) request(ctx context.Context, method, body string, headers ...header) *http.Request {
	e.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, e.srv.URL, strings.NewReader(body))
	require.NoError(e.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		setHeader(req, h)
	}
	return req
}

func setHeader(req *http.Request, h header) {
	if name, found := strings.CutPrefix(h, "-"); found {
		req.Header.Del(name)
		return
	}
	name, value, found := strings.Cut(h, ": ")
	switch {
	case !found:
		name, value, _ = strings.Cut(h, "! ")
		req.Header.Add(name, value)
	case name == "Host":
		req.Host = value
	default:
		req.Header.Set(name, value)
	}
}

// waiting starts a legacy call of a tool that waits, in a session, and returns where its answer comes when it is released.
func (e *endpoint) waiting(sid header) <-chan *http.Response {
	e.t.Helper()
	answered := make(chan *http.Response, 1)
	req := e.request(e.t.Context(), "POST", legacy(1, "tools/call", "wait"), sid)
	go func() {
		res, _ := e.do(req)
		answered <- res
	}()
	<-e.Started
	return answered
}

// do sends a request and returns the response with its body read.
func (e *endpoint) do(req *http.Request) (*http.Response, string) {
	e.t.Helper()
	res, err := e.srv.Client().Do(req)
	require.NoError(e.t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(e.t, err)
	return res, string(body)
}

func (e *endpoint) post(body string, headers ...header) (*http.Response, string) {
	e.t.Helper()
	return e.do(e.request(e.t.Context(), "POST", body, headers...))
}

// modernHeaders repeat what modern puts into the body.
func modernHeaders(method, name string) []header {
	return []header{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + method, "Mcp-Name: " + name}
}

// call posts a modern tools/call.
func (e *endpoint) call(name string, headers ...header) (*http.Response, string) {
	e.t.Helper()
	return e.post(modern(1, name), append(modernHeaders("tools/call", name), headers...)...)
}

// session opens a legacy session and returns its header.
func (e *endpoint) session() header {
	e.t.Helper()
	res, body := e.post(legacy(0, "initialize", ""))
	require.Equal(e.t, 200, res.StatusCode, body)
	id := res.Header.Get("Mcp-Session-Id")
	require.NotEmpty(e.t, id)
	return "Mcp-Session-Id: " + id
}
