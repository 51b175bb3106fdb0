package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fake stands in for the server room: a core whose requests do what their
// method says.
//
//	echo      answers with params.name
//	progress  sends params.name notifications, then answers
//	step      sends a notification and waits for the test, twice, then answers
//	wait      waits for its context or the test, then answers
//	ask       answers with what the client says to roots/list
//	fail      answers with the error code in params.name
//	print     prints to standard output, as nobody should
//	initialize, ping
type fake struct {
	t    *testing.T
	core *session.Core

	started chan struct{} // a handler of step or wait has begun
	release chan struct{} // lets one go on
	ended   chan error    // the cause, when one returns
	routes  map[string]*session.Route
}

// newFake returns a fake whose core logs to the one logger that is given, if any.
func newFake(t *testing.T, limits session.Limits, logger ...*slog.Logger) *fake {
	return newFakeOf(t, session.Config{Logger: append(logger, slog.New(slog.DiscardHandler))[0], Limits: limits})
}

// newFakeOf returns a fake whose core is made of cfg.
func newFakeOf(t *testing.T, cfg session.Config) *fake {
	f := &fake{
		t: t, started: make(chan struct{}, 100), release: make(chan struct{}), ended: make(chan error, 100),
		routes: map[string]*session.Route{},
	}
	cfg.Dispatcher = f
	f.core = session.New(cfg)
	for name, handle := range map[string]session.Handle{
		"tools/call": f.handle, "initialize": f.initialize, "ping": f.handle, "": f.handle,
	} {
		f.routes[name] = &session.Route{
			Series: f.core.Series(name, ""), Handle: handle, BeforeInitialize: name != "tools/call",
			Handshake: name == "initialize",
		}
	}
	return f
}

const strayPrint = "a stray print"

// A text is a result.
type text struct {
	mcp.ResultMeta
	Text string
}

func (f *fake) Route(in *session.Inbound, _ *session.Session) *session.Route {
	if rt := f.routes[in.Method]; rt != nil {
		return rt
	}
	return f.routes[""].Refuse(mcp.NewError(mcp.CodeMethodNotFound, "no such method"))
}

func (f *fake) Notify(context.Context, *session.Inbound, *session.Session) {}

func (f *fake) Encode(dst []byte, _ *session.Request, result mcp.Result) (_, rest []byte, err error) {
	return fmt.Appendf(dst, `{"text":%q}`, result.(*text).Text), nil, nil
}

func (f *fake) initialize(_ context.Context, r *session.Request) (mcp.Result, error) {
	if r.Name == "fail" || strings.Contains(string(r.Params), "fail") {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "not you")
	}
	r.Session().Initialize(&session.Peer{Version: mcp.Version20251125})
	return &text{Text: "welcome"}, nil
}

func (f *fake) handle(ctx context.Context, r *session.Request) (mcp.Result, error) {
	what, n, _ := strings.Cut(r.Name, ":")
	switch what {
	case "print":
		fmt.Println(strayPrint)
	case "progress":
		for i := range len(n) {
			if err := r.Notify("notifications/progress", fmt.Appendf(nil, `{"n":%d}`, i), ""); err != nil {
				return nil, err
			}
		}
	case "step":
		for i := range 2 {
			if err := r.Notify("notifications/progress", fmt.Appendf(nil, `{"n":%d}`, i), ""); err != nil {
				return nil, err
			}
			f.started <- struct{}{}
			<-f.release
		}
	case "wait":
		f.started <- struct{}{}
		select {
		case <-ctx.Done():
		case <-f.release:
		}
		f.ended <- context.Cause(ctx)
	case "ask":
		reply, err := r.Ask(ctx, "roots/list", nil)
		if err != nil {
			return nil, mcp.NewError(mcp.CodeInternalError, "%v", err)
		}
		return &text{Text: string(reply)}, nil
	case "fail":
		var code mcp.Code
		_, _ = fmt.Sscan(n, &code)
		if code == 0 {
			return nil, errors.New("secret")
		}
		return nil, mcp.NewError(code, "failed")
	}
	return &text{Text: r.Name}, nil
}

// conserved shuts the core down and checks that no answer was lost from the books.
func (f *fake) conserved() session.Counters {
	f.t.Helper()
	require.NoError(f.t, f.core.Shutdown(context.Background()))
	snap := f.core.Snapshot()
	require.Empty(f.t, snap.Requests)
	require.Empty(f.t, snap.Sessions)
	admitted, sent, stored, dropped := snap.Counters.Totals()
	require.Equal(f.t, admitted, sent+stored+dropped, "admitted = sent + stored + dropped")
	return snap.Counters
}

// dropped returns how many answers were dropped for a reason.
func dropped(c session.Counters, reason mcp.DropReason) (n uint64) {
	for _, s := range c.Series {
		n += s.Dropped[reason]
	}
	return n
}

// An endpoint is the HTTP endpoint of a fake behind a real listener.
type endpoint struct {
	*fake
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

func newEndpoint(t *testing.T, proto protocol, limits session.Limits, cfg transport.HTTPConfig) *endpoint {
	t.Helper()
	return newEndpointOf(newFake(t, limits), proto, cfg)
}

// newEndpointOf returns the endpoint of a fake.
func newEndpointOf(f *fake, proto protocol, cfg transport.HTTPConfig) *endpoint {
	t := f.t
	e := &endpoint{fake: f, left: make(chan struct{}, 1000)}
	h := transport.NewHTTP(e.core, cfg)
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

// modern returns a tools/call of the modern era.
func modern(id int, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, name)
}

// call posts a modern tools/call.
func (e *endpoint) call(name string, headers ...header) (*http.Response, string) {
	e.t.Helper()
	return e.post(modern(1, name), append(modernHeaders("tools/call", name), headers...)...)
}

// legacy returns a request of the legacy era.
func legacy(id int, method, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"name":%q}}`, id, method, name)
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

func answer(id int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"text":%q}}`, id, text)
}

func failure(id string, code int, message string) string {
	if id != "" {
		id = `"id":` + id + `,`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0",%s"error":{"code":%d,"message":%q}}`, id, code, message)
}
