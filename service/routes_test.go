package service_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/service"
)

// startWith is start with options of the process.
func startWith(t *testing.T, opts ...service.Option) *running {
	t.Helper()
	srv, _ := newGated(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{
		stop: cancel, done: make(chan struct{}), stderr: &syncBuffer{},
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience},
	}
	ready := make(chan service.Endpoints, 1)
	go func() {
		defer close(r.done)
		r.err = service.Run(ctx, srv, append(append(quiet(), service.WithStderr(r.stderr),
			service.WithListening(func(e service.Endpoints) { ready <- e })), opts...)...)
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

// do sends a request and returns status and body of the answer.
func (r *running) do(t *testing.T, method, url, body string, headers ...string) (resp *http.Response, text string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err = r.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(got)
}

// says answers with a text, and the body of the request after it.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, text+string(body))
	})
}

// needsToken is an authenticating middleware as its documentation wants it.
func needsToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodOptions && r.Header.Get("Authorization") != "Bearer t0ken" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// The middleware is around the endpoint and around nothing else, the first one outermost.
func TestHTTPMiddleware(t *testing.T) {
	numbered := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Request-Id", "17")
			next.ServeHTTP(w, r)
		})
	}
	const document = "/.well-known/oauth-protected-resource"
	r := startWith(t, service.WithHTTPMiddleware(numbered, needsToken), service.WithHTTPHandler("GET "+document, says("{}")))
	a := r.call("echo", `{"text":"hello"}`)
	assert.Equal(t, http.StatusUnauthorized, a.status)
	assert.Equal(t, "17", a.header.Get("X-Request-Id"), "the first one is the outermost")
	a = r.call("echo", `{"text":"hello"}`, func(req *http.Request) { req.Header.Set("Authorization", "Bearer t0ken") })
	require.NoError(t, a.err)
	assert.Equal(t, "hello", a.text())

	base := strings.TrimSuffix(r.MCP, "/mcp")
	resp, text := r.do(t, http.MethodGet, base+document, "")
	assert.Equal(t, http.StatusOK, resp.StatusCode, "it is fetched without a token")
	assert.Equal(t, "{}", text)
	assert.Empty(t, resp.Header.Get("X-Request-Id"))
	resp, _ = r.do(t, http.MethodPost, base+document, "")
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	resp, _ = r.do(t, http.MethodGet, base+"/nothing", "")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode)
	status, _ := r.get(t, "/readyz")
	assert.Equal(t, http.StatusOK, status)
	status, _ = r.get(t, document)
	assert.Equal(t, http.StatusNotFound, status, "it is not on the admin listener")
}

// Only a stream of MCP that stands ends its connection, and no page beside the endpoint.
func TestHTTPHandlersKeepTheirConnection(t *testing.T) {
	r := startWith(t, service.WithHTTPHandler("/hello", says("hello")))
	kept := &http.Transport{}
	defer kept.CloseIdleConnections()
	r.client = &http.Client{Transport: kept, Timeout: patience}
	resp, _ := r.do(t, http.MethodGet, strings.TrimSuffix(r.MCP, "/mcp")+"/hello", "")
	assert.False(t, resp.Close)
}

func TestInvalidHandlersOfTheProgram(t *testing.T) {
	ok := says("ok")
	stopped := 0
	for _, tt := range []struct {
		name, want string
		opts       []service.Option
	}{
		{"endpoint", `WithHTTPHandler("/mcp"): the service has a page`, []service.Option{service.WithHTTPHandler("/mcp", ok)}},
		{"endpoint with a method", "has a page of its own", []service.Option{service.WithHTTPHandler("GET /mcp", ok)}},
		{"wildcard over the endpoint", "conflicts", []service.Option{service.WithHTTPHandler("GET /{name}", ok)}},
		{"twice", `WithHTTPHandler("/a")`, []service.Option{service.WithHTTPHandler("/a", ok), service.WithHTTPHandler("/a", ok)}},
		{"host", "no host", []service.Option{service.WithHTTPHandler("example.com/a", ok)}},
		{"host and method", "no host", []service.Option{service.WithAdminHandler("GET example.com/metrics", ok)}},
		{"no path", "want a path", []service.Option{service.WithAdminHandler("flags", ok)}},
		{"nil", "the handler is nil", []service.Option{service.WithAdminHandler("/flags", nil)}},
		{"nil middleware", "WithHTTPMiddleware: a middleware is nil", []service.Option{service.WithHTTPMiddleware(nil)}},
		{"middleware that returns nil", "returned no handler",
			[]service.Option{service.WithHTTPMiddleware(func(http.Handler) http.Handler { return nil })}},
		{"bad pattern", `WithAdminHandler("GET /{")`, []service.Option{service.WithAdminHandler("GET /{", ok)}},
		{"metrics", `WithAdminHandler("GET /metrics"): the service has a page`, []service.Option{service.WithAdminHandler("GET /metrics", ok)}},
		{"another method", "has a page of its own", []service.Option{service.WithAdminHandler("POST /readyz", ok)}},
		{"below", "has a page of its own", []service.Option{service.WithAdminHandler("/debug/pprof/mine", ok)}},
		{"index", "has a page of its own", []service.Option{service.WithAdminHandler("/{$}", ok)}},
	} {
		stopped = 0
		srv, _ := newGated(t, false)
		srv.AddHook("files", nil, func(context.Context) error { stopped++; return nil })
		srv.AddHook("cache", func(context.Context) error { t.Error("it starts: ", tt.name); return nil },
			func(context.Context) error { t.Error("it stops: ", tt.name); return nil })
		err := service.Run(t.Context(), srv, append(quiet(), tt.opts...)...)
		assert.ErrorContains(t, err, tt.want, tt.name)
		assert.Equal(t, 1, stopped, "what was opened to make the server is closed: %s", tt.name)
	}
}

// The program's own pages of the admin listener are behind what protects the others.
func TestAdminHandlers(t *testing.T) {
	r := startWith(t, service.WithAdminHandler("/flags", says("flags ")), service.WithAdminHandler("POST /reload", says("reloaded")),
		service.WithAdminHandler("GET /users/{id}", says("user")), service.WithAdminHandler("GET /debug/vars", says("vars")))
	for path, want := range map[string]string{"/flags": "flags ", "/users/7": "user", "/debug/vars": "vars", "/livez": "ok\n"} {
		status, body := r.get(t, path)
		assert.Equal(t, http.StatusOK, status, path)
		assert.Equal(t, want, body, path)
	}
	resp, text := r.do(t, http.MethodPost, r.Admin+"/flags", "on")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "flags on", text, "it may read a body")
	resp, _ = r.do(t, http.MethodGet, r.Admin+"/metrics", "on")
	assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode, "ours may not")

	for _, headers := range [][]string{
		{"Host", "rebound.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://127.0.0.1:1"},
	} {
		resp, text := r.do(t, http.MethodPost, r.Admin+"/reload", "", headers...)
		assert.Equal(t, http.StatusForbidden, resp.StatusCode, headers)
		assert.NotContains(t, text, "reloaded")
	}
	resp, _ = r.do(t, http.MethodPost, r.Admin+"/reload", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)

	_, index := r.get(t, "/")
	assert.Contains(t, index, "of this program:\n/flags\nPOST /reload\nGET /users/{id}\nGET /debug/vars\n")
	_, page := r.getAs(t, "/", browserAccepts)
	assert.Contains(t, page, `<a href="./flags">flags</a>`)
	assert.Contains(t, page, `<a href="./debug/vars">debug/vars</a>`)
	assert.NotContains(t, page, "reload")
	assert.NotContains(t, page, "users")
	assert.NotContains(t, page, "{{")
	resp, _ = r.do(t, http.MethodGet, strings.TrimSuffix(r.MCP, "/mcp")+"/flags", "")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode, "they are not on the MCP listener")
}
