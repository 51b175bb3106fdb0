package incidents

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// TestOutgoingRequestsOfOtelhttp checks that the requests of a handler whose client has otelhttp are on the
// page of recent requests, by host and method.
func TestOutgoingRequestsOfOtelhttp(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer backend.Close()
	tel, err := telemetry.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tel.Shutdown(context.Background()) }()
	srv := server.New("outgoing", "1", server.WithTelemetry(tel))
	server.AddTool(srv, server.Tool{Name: "fetch"}, func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		client := http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport)}
		for _, method := range []string{http.MethodGet, http.MethodGet, http.MethodPost} {
			req, err := http.NewRequestWithContext(ctx, method, backend.URL, nil)
			if err != nil {
				return "", err
			}
			res, err := client.Do(req)
			if err != nil {
				return "", err
			}
			res.Body.Close()
		}
		return "done", nil
	})
	front := httptest.NewServer(srv.Handler())
	defer front.Close()
	req, _ := http.NewRequest(http.MethodPost, front.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fetch","arguments":{},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": "fetch",
	} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if !strings.Contains(string(body), "done") {
		t.Fatalf("the answer is %s", body)
	}
	front.Close() // a request is on the page when it is over, and its client has the answer before
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	page := httptest.NewRecorder()
	tel.TracesHandler().ServeHTTP(page, httptest.NewRequest("GET", "/debug/traces?group=tool&format=text", nil))
	host := strings.TrimPrefix(backend.URL, "http://")
	for _, row := range []string{"GET +2 +0 ", "POST +1 +1 "} {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^%s +%s`, regexp.QuoteMeta(host), row)).MatchString(page.Body.String()) {
			t.Errorf("no row %q of %s in\n%s", row, host, page.Body)
		}
	}
}
