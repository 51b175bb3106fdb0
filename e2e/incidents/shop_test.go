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
	on          atomic.Bool // the incident has begun
	in          *incident

	ctx     context.Context
	clients sync.WaitGroup
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
	s := &shop{in: in, ctx: t.Context()}
	srv := server.New("shop", "1", server.WithTelemetry(tel), server.WithLogger(slog.New(slog.DiscardHandler)),
		server.WithAuthenticator(auth.AuthenticatorFunc(func(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
			p := &auth.Principal{Subject: http.Header(caller.Header).Get("X-User"), Scopes: []string{"shop"}}
			if s.on.Load() && p.Subject == in.unauthorized {
				p.Scopes = nil
			}
			return p, nil
		})))
	for i, name := range []string{"search", "order", "refund", "export"} {
		server.AddTool(srv, server.Tool{Name: name, Scopes: []string{"shop"}, Deadline: 150 * time.Millisecond}, func(ctx context.Context, call *server.Call, _ order) (string, error) {
			took := time.Duration(20+20*i) * time.Millisecond
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

// A caller is one user with one client.
type caller struct{ client, version, user string }

// RoundTrip says who the user is.
func (c caller) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", c.user)
	return http.DefaultTransport.RoundTrip(r)
}

// connect makes a client of the SDK.
func (s *shop) connect(c caller) (*sdk.ClientSession, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: c.client, Version: c.version}, nil)
	return client.Connect(s.ctx, &sdk.StreamableClientTransport{Endpoint: s.addr + "/mcp", HTTPClient: &http.Client{Transport: c}}, nil)
}

// start makes a caller call tools until the context ends.
func (s *shop) start(ctx context.Context, c caller, every time.Duration) {
	s.clients.Go(func() {
		session, err := s.connect(c)
		if err != nil {
			return // the test finds no calls
		}
		defer session.Close()
		for ctx.Err() == nil {
			var arguments any = order{rand.IntN(100)}
			patience := time.Minute
			if s.on.Load() && c.version == s.in.newVersion {
				if s.in.wrong {
					arguments = map[string]string{"number": "seven"}
				}
				if s.in.patience != 0 {
					patience = s.in.patience
				}
			}
			call, done := context.WithTimeout(ctx, patience)
			_, _ = session.CallTool(call, &sdk.CallToolParams{Name: []string{"search", "order", "refund", "export"}[rand.IntN(4)], Arguments: arguments})
			done()
			wait(ctx, every/2+time.Duration(rand.Int64N(int64(every))))
		}
	})
}

// wait waits for a time, or until the context ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
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
