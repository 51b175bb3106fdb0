package server_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

var changesSeed = flag.Uint64("changes.seed", 1, "the seed of TestPageOfChangesNamesTheCause")

// A shop is a server with five tools, and callers in virtual time. Its fields change what happens.
type shop struct {
	tel     *telemetry.Telemetry
	handler http.Handler
	calls   uint64 // that were made

	incident  atomic.Bool
	fails     []string // tools that fail half of their calls during the incident
	large     string   // a tool that returns ten times as much
	hidden    string   // a tool that the policy denies
	lost      string   // a principal whose token has no scope any more
	impatient string   // a client that hangs up after 2 s
}

func (s *shop) open(t *testing.T) {
	tel, err := telemetry.New()
	require.NoError(t, err)
	s.tel = tel
	srv := newServer(t, server.WithTelemetry(tel),
		server.WithAuthenticator(auth.AuthenticatorFunc(func(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
			p := &auth.Principal{Subject: http.Header(caller.Header).Get("X-User"), Scopes: []string{"shop"}}
			if p.Subject == s.lost && s.incident.Load() {
				p.Scopes = nil
			}
			return p, nil
		})),
		deny(func(_ *auth.Principal, op *auth.Operation) bool { return op.Name == s.hidden && s.incident.Load() }))
	for i, name := range []string{"search", "order", "refund", "forecast", "export"} {
		server.AddTool(srv, server.Tool{Name: name, Scopes: []string{"shop"}}, func(ctx context.Context, call *server.Call, _ struct{}) (string, error) {
			id, err := strconv.ParseUint(call.ID.String(), 10, 64)
			if err != nil {
				return "", err
			}
			random := randomOf(id, 1)
			select {
			case <-time.After(time.Duration(float64(10*time.Millisecond) * float64(1+i*i*20) * (0.5 + random.Float64()))):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			size := 500 + random.IntN(500)
			if s.incident.Load() {
				for _, failing := range s.fails {
					if name == failing && random.IntN(2) == 0 {
						return "", errors.New("the database is gone")
					}
				}
				if name == s.large {
					size *= 10
				}
			}
			return strings.Repeat("x", size), nil
		})
	}
	s.handler = srv.Handler()
}

// randomOf returns the random numbers of one part of a call: 0 is its caller, 1 its handler. They do not depend on other calls, which
// run at the same time.
func randomOf(call, part uint64) *rand.Rand { return rand.New(rand.NewPCG(*changesSeed, 2*call+part)) }

// call makes a call of one of the tools.
func (s *shop) call(id uint64) {
	random := randomOf(id, 0)
	client, user := []string{"desk", "cli"}[id%2], fmt.Sprintf("user-%d", random.IntN(5))
	tool := []string{"search", "order", "refund", "forecast", "export"}[random.IntN(5)]
	body := modern(id, "tools/call", call(tool, `{}`), fmt.Sprintf(`"io.modelcontextprotocol/clientInfo":{"name":%q,"version":"1.0"}`, client))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if client == s.impatient && s.incident.Load() {
		ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8080/mcp", strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:5555"
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": tool, "X-User": user,
	} {
		r.Header.Set(name, value)
	}
	s.handler.ServeHTTP(httptest.NewRecorder(), r)
}

// run makes three calls a second for so long.
func (s *shop) run(length time.Duration) {
	var calls sync.WaitGroup
	for range int(length / (time.Second / 3)) {
		id := s.calls
		s.calls++
		calls.Go(func() { s.call(id) })
		time.Sleep(time.Second / 3)
	}
	calls.Wait()
}

// changed returns the texts of the page.
func (s *shop) changed(t *testing.T, query string) (texts []string, first struct {
	Requests string
	Traces   []string
	PromQL   string
}) {
	w := httptest.NewRecorder()
	s.tel.ChangesHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/changes"+query, nil))
	require.Equal(t, http.StatusOK, w.Code)
	var page struct {
		Changes []struct {
			Text, Requests, PromQL string
			Traces                 []string
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page, json.MatchCaseInsensitiveNames(true)), w.Body.String())
	for i, c := range page.Changes {
		if i == 0 {
			first.Requests, first.Traces, first.PromQL = c.Requests, c.Traces, c.PromQL
		}
		texts = append(texts, c.Text)
	}
	return texts, first
}

// The first line of the page names the cause of an incident of a real server.
func TestPageOfChangesNamesTheCause(t *testing.T) {
	for _, row := range []struct {
		name string
		shop *shop
		want []string
		// requests are the filters of the link.
		requests []string
	}{
		{"a dependency of two tools fails", &shop{fails: []string{"refund", "order"}}, []string{"errors", "refund", "order"}, []string{"class=error"}},
		{"a tool returns ten times as much", &shop{large: "search"}, []string{"answer bytes", "search"}, []string{"tool=search"}},
		{"the scopes of a principal were withdrawn", &shop{lost: "user-3"}, []string{"rejections", "user-3", "refused"}, []string{"class=rejected", "principal=user-3", "reason=refused"}},
		{"a client hangs up after two seconds", &shop{impatient: "cli"}, []string{"cancellations", "cli", "export", "client_disconnect", "phase running"},
			[]string{"class=cancelled", "cause=client_disconnect", "client=cli"}},
		{"a new rule denies a tool", &shop{hidden: "forecast"}, []string{"forecast"}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := row.shop
				s.open(t)
				s.run(12 * time.Minute)
				quiet, _ := s.changed(t, "")
				require.Empty(t, quiet)
				s.incident.Store(true)
				begin := time.Now()
				s.run(4 * time.Minute)
				texts, first := s.changed(t, "")
				t.Log(strings.Join(texts, "\n"), first)
				require.NotEmpty(t, texts)
				for _, want := range row.want {
					assert.Contains(t, texts[0], want)
				}
				for _, want := range row.requests {
					assert.Contains(t, first.Requests, want)
				}
				w := httptest.NewRecorder()
				s.tel.TracesHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, first.Requests, nil))
				assert.Equal(t, http.StatusOK, w.Code, w.Body.String())
				chosen, _ := s.changed(t, "?from="+begin.UTC().Format(time.RFC3339))
				require.NotEmpty(t, chosen)
				for _, want := range row.want {
					assert.Contains(t, chosen[0], want)
				}
			})
		})
	}
}
