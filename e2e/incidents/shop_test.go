package incidents

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A shop is a server with four tools on a socket, its admin pages on another one, and its clients.
type shop struct {
	addr, admin string
	log         string      // its file
	on          atomic.Bool // the incident has begun
	in          *incident

	ctx     context.Context
	callers []*caller
}

// order are the arguments of each tool.
type order struct {
	Number int `json:"number"`
}

// open starts the server.
func open(t *testing.T, in *incident) *shop {
	tel, err := telemetry.New()
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{in: in, ctx: t.Context(), log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	srv := server.New("shop", "1", server.WithTelemetry(tel), server.WithLogger(slog.New(tel.LogHandler(slog.NewTextHandler(log, nil)))),
		server.WithAuthenticator(auth.AuthenticatorFunc(func(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
			p := &auth.Principal{Subject: http.Header(caller.Header).Get("X-User"), Scopes: []string{"shop"}}
			if s.on.Load() && p.Subject == in.unauthorized {
				p.Scopes = nil
			}
			return p, nil
		})))
	deadline := 500 * time.Millisecond
	if in.slow {
		deadline = time.Minute // its calls end, on a busy machine as well
	}
	for _, name := range tools {
		server.AddTool(srv, server.Tool{Name: name, Scopes: []string{"shop"}, Deadline: deadline}, func(ctx context.Context, call *server.Call, _ order) (string, error) {
			took := 40 * time.Millisecond
			size := 400 + rand.IntN(200)
			if s.on.Load() {
				if in.happens != nil {
					if err := in.happens(call, name, &took, &size); err != nil {
						return "", err
					}
				}
			}
			select {
			case <-time.After(took):
				return strings.Repeat("x", size), nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
	}
	s.addr = listen(t, srv.Handler())
	pages := http.NewServeMux()
	pages.Handle("GET /debug/changes", tel.ChangesHandler())
	pages.Handle("GET /debug/traces", tel.TracesHandler())
	pages.Handle("GET /debug/traces/{id}", tel.TracesHandler())
	pages.Handle("GET /debug/requests", tel.RequestsHandler())
	pages.Handle("GET /metrics", tel.MetricsHandler())
	s.admin = listen(t, pages)
	t.Cleanup(func() {
		if err := srv.Shutdown(context.Background()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return s
}

// listen serves a handler until the end of the test.
func listen(t *testing.T, handler http.Handler) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: handler}
	go web.Serve(l)
	t.Cleanup(func() { web.Close() })
	return "http://" + l.Addr().String()
}

var tools = []string{"search", "order", "refund", "export"}

// A caller is one user with one client.
type caller struct {
	client, version, user string
	session               *sdk.ClientSession
}

// RoundTrip says who the user is.
func (c *caller) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", c.user)
	return http.DefaultTransport.RoundTrip(r)
}

// connect adds a caller with a client of the SDK.
func (s *shop) connect(t *testing.T, client, version, user string) {
	c := &caller{client: client, version: version, user: user}
	var err error
	c.session, err = sdk.NewClient(&sdk.Implementation{Name: client, Version: version}, nil).
		Connect(s.ctx, &sdk.StreamableClientTransport{Endpoint: s.addr + "/mcp", HTTPClient: &http.Client{Transport: c}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.session.Close() })
	s.callers = append(s.callers, c)
}

// call makes all callers call one tool each.
func (s *shop) call(step int, calls *sync.WaitGroup) {
	for i, c := range s.callers {
		tool := tools[(step+i)%len(tools)]
		calls.Go(func() {
			var arguments any = order{step}
			ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
			defer cancel()
			if s.on.Load() && c.version == s.in.newVersion {
				if s.in.wrong {
					arguments = map[string]string{"number": "seven"}
				}
				if s.in.patience != 0 {
					ctx, cancel = context.WithTimeout(ctx, s.in.patience)
					defer cancel()
				}
			}
			_, _ = c.session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
		})
	}
}

// changed reads the page.
func (s *shop) changed(t *testing.T) (page report.Changes) {
	get(t, s.admin+"/debug/changes", &page)
	return page
}

func get(t *testing.T, url string, into any) {
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v %s %s", url, err, response.Status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatal(err)
	}
}
