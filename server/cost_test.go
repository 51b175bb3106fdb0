package server_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/audit/auditfile"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/transport"
)

// costServer is a server with one tool, as its users have it.
func costServer(tb testing.TB, tel *telemetry.Telemetry, scopes []string, opts ...server.Option) *server.Server {
	srv := server.New("cost", "1", append(opts, server.WithTelemetry(tel), server.WithLogger(slog.New(slog.DiscardHandler)))...)
	server.AddTool(srv, server.Tool{Name: "echo", Scopes: scopes}, costEcho)
	tb.Cleanup(func() { require.NoError(tb, srv.Shutdown(context.Background())) })
	return srv
}

func costEcho(_ context.Context, _ *server.Call, in struct {
	Text string `json:"text"`
}) (string, error) {
	return in.Text, nil
}

// unsampled is telemetry with everything on but the recording of spans.
func unsampled(tb testing.TB) *telemetry.Telemetry {
	tb.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tel, err := telemetry.New()
	require.NoError(tb, err)
	return tel
}

// withDefaults is telemetry without any setting, as most servers have it.
func withDefaults(tb testing.TB) *telemetry.Telemetry {
	tb.Setenv("OTEL_TRACES_SAMPLER", "")
	tel, err := telemetry.New()
	require.NoError(tb, err)
	return tel
}

// An exchangeRig gives one HTTP request to a handler again and again, without net/http's
// own part: what is measured is ours.
type exchangeRig struct {
	handler http.Handler
	request *http.Request
	body    strings.Reader
	text    string
	token   []string // the header Authorization, which the server removes; nil if there is none
	header  http.Header
	status  int
	bytes   int
}

// echoed is what the measured calls ask for.
var echoed = call("echo", `{"text":"`+strings.Repeat("x", 40)+`"}`)

// newModernRig returns a rig for a tools/call of a modern client.
func newModernRig(tb testing.TB, srv *server.Server) *exchangeRig {
	rig := newExchangeRig(tb, srv, "2026-07-28")
	rig.say(modern(1, "tools/call", echoed))
	rig.request.Header.Set("Mcp-Method", "tools/call")
	rig.request.Header.Set("Mcp-Name", "echo")
	return rig
}

// newLegacyRig returns a rig for a tools/call of a legacy client, whose session is open.
func newLegacyRig(tb testing.TB, srv *server.Server) *exchangeRig {
	rig := newExchangeRig(tb, srv, "2025-11-25")
	rig.open(tb)
	rig.say(legacy(1, "tools/call", echoed))
	return rig
}

// open opens a legacy session.
func (rig *exchangeRig) open(tb testing.TB) {
	rig.request.Header.Del("Mcp-Session-Id")
	rig.say(legacy(0, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
	rig.serve(tb)
	rig.request.Header.Set("Mcp-Session-Id", rig.header.Get("Mcp-Session-Id"))
	rig.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	rig.exchange()
	require.Equal(tb, http.StatusAccepted, rig.status)
}

func newExchangeRig(tb testing.TB, srv *server.Server, version string) *exchangeRig {
	rig := &exchangeRig{handler: srv.Handler(), header: http.Header{}}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), http.LocalAddrContextKey,
		net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})))
	tb.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8080/mcp", nil)
	require.NoError(tb, err)
	r.RemoteAddr, r.Body = "127.0.0.1:5555", io.NopCloser(&rig.body)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": version,
	} {
		r.Header.Set(name, value)
	}
	rig.request = r
	return rig
}

// say sets what the requests say from now on.
func (rig *exchangeRig) say(text string) {
	rig.text, rig.request.ContentLength = text, int64(len(text))
}

// exchange makes one exchange.
func (rig *exchangeRig) exchange() {
	rig.body.Reset(rig.text)
	clear(rig.header)
	if rig.token != nil {
		rig.request.Header["Authorization"] = rig.token
	}
	rig.status, rig.bytes = 0, 0
	rig.handler.ServeHTTP(rig, rig.request)
}

// serve makes one exchange that has to end with an answer.
func (rig *exchangeRig) serve(tb testing.TB) {
	rig.exchange()
	if rig.status != http.StatusOK || rig.bytes == 0 {
		tb.Fatalf("status %d, %d bytes", rig.status, rig.bytes)
	}
}

func (rig *exchangeRig) Header() http.Header              { return rig.header }
func (rig *exchangeRig) WriteHeader(status int)           { rig.status = status }
func (rig *exchangeRig) Write(p []byte) (int, error)      { rig.bytes += len(p); return len(p), nil }
func (rig *exchangeRig) FlushError() error                { return nil }
func (rig *exchangeRig) SetReadDeadline(time.Time) error  { return nil }
func (rig *exchangeRig) SetWriteDeadline(time.Time) error { return nil }

// newSessionRig returns a function for the whole life of a session: initialize,
// notifications/initialized, a tools/call, and DELETE.
func newSessionRig(tb testing.TB, srv *server.Server) func() {
	rig := newExchangeRig(tb, srv, "2025-11-25")
	return func() {
		rig.request.Method = http.MethodPost
		delete(rig.request.Header, "Mcp-Session-Id")
		rig.say(legacy(0, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
		rig.serve(tb)
		rig.request.Header["Mcp-Session-Id"] = rig.header["Mcp-Session-Id"]
		rig.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		rig.exchange()
		if rig.status != http.StatusAccepted {
			tb.Fatalf("notifications/initialized: status %d", rig.status)
		}
		rig.say(legacy(1, "tools/call", echoed))
		rig.serve(tb)
		rig.request.Method = http.MethodDelete
		rig.say("")
		rig.exchange()
		if rig.status != http.StatusNoContent {
			tb.Fatalf("DELETE: status %d", rig.status)
		}
	}
}

// A costRow is one way of a call, from its bytes to the bytes of its answer.
type costRow struct {
	name string
	max  float64 // allocations
	call func(testing.TB) func()
}

// costRows are the whole ways. The budgets are what they cost now: whoever needs more, says
// what for; whoever needs less, lowers them.
func costRows() []costRow {
	modernOf := func(tel func(testing.TB) *telemetry.Telemetry) func(testing.TB) func() {
		return func(tb testing.TB) func() {
			rig := newModernRig(tb, costServer(tb, tel(tb), nil))
			return func() { rig.serve(tb) }
		}
	}
	legacyOf := func(tel func(testing.TB) *telemetry.Telemetry) func(testing.TB) func() {
		return func(tb testing.TB) func() {
			rig := newLegacyRig(tb, costServer(tb, tel(tb), nil))
			return func() { rig.serve(tb) }
		}
	}
	sealedOf := func(opts ...server.Option) func(testing.TB) func() {
		return func(tb testing.TB) func() {
			rig := newLegacyRig(tb, costServer(tb, unsampled(tb), nil, append(opts, server.WithStateKeys(stateKey(1)))...))
			return func() { rig.serve(tb) }
		}
	}
	sessionOf := func(tel func(testing.TB) *telemetry.Telemetry) func(testing.TB) func() {
		return func(tb testing.TB) func() { return newSessionRig(tb, costServer(tb, tel(tb), nil)) }
	}
	pipeOf := func(tel func(testing.TB) *telemetry.Telemetry) func(testing.TB) func() {
		return func(tb testing.TB) func() { return overPipe(tb, costServer(tb, tel(tb), nil)) }
	}
	limit := server.WithRateLimits(middleware.RateLimit{
		Name: "calls", Requests: 1e6, Window: time.Millisecond, Per: []string{middleware.PerAddress, middleware.PerTool},
	})
	bounded := func(opt server.Option) func(testing.TB) func() {
		return func(tb testing.TB) func() {
			rig := newModernRig(tb, costServer(tb, telemetry.Disabled(), nil, opt))
			return func() { rig.serve(tb) }
		}
	}
	classed := func(tb testing.TB) func() {
		srv := costServer(tb, telemetry.Disabled(), nil)
		server.AddTool(srv, server.Tool{Name: "echo", Class: server.NewClass("cost", 100).PerCaller(50)}, costEcho)
		rig := newModernRig(tb, srv)
		return func() { rig.serve(tb) }
	}
	recorded := func(strict bool) func(tb testing.TB) func() {
		return func(tb testing.TB) func() {
			rig := newModernRig(tb, costServer(tb, unsampled(tb), nil, server.WithAudit(costAudit(tb, strict))))
			return func() { rig.serve(tb) }
		}
	}
	protected := func(level int) func(tb testing.TB) func() {
		return func(tb testing.TB) func() { return newProtectedCall(tb, level) }
	}
	off := func(testing.TB) *telemetry.Telemetry { return telemetry.Disabled() }
	return []costRow{
		{"modern HTTP, telemetry off", 14, modernOf(off)},
		{"modern HTTP, telemetry off, a rate limit", 14, bounded(limit)},
		{"modern HTTP, telemetry off, a bound per caller", 14, bounded(server.WithLimits(server.Limits{MaxInFlightPerCaller: 100}))},
		{"modern HTTP, telemetry off, a class with a bound per caller", 14, classed},
		{"modern HTTP, unsampled", 15, modernOf(unsampled)},
		{"modern HTTP, defaults", 15, modernOf(withDefaults)},
		{"modern HTTP, unsampled, audit", 16, recorded(false)}, // the trace id
		{"modern HTTP, unsampled, strict audit", 16, recorded(true)},
		{"modern HTTP, unsampled, a token that nobody reads", 15, protected(tokenIgnored)},
		{"modern HTTP, unsampled, JWT", 16, protected(tokenVerified)},
		{"modern HTTP, unsampled, JWT, scope, policy", 24, protected(thenDecided)},
		{"modern HTTP, unsampled, JWT, scope, policy, audit", 25, protected(thenRecorded)},
		{"legacy HTTP, telemetry off", 16, legacyOf(off)},
		{"legacy HTTP, unsampled", 17, legacyOf(unsampled)},
		{"legacy HTTP, unsampled, sealed ids", 17, sealedOf()},
		{"legacy HTTP, unsampled, sealed ids, a store", 17, sealedOf(server.WithStore(new(store.Memory).Store()))},
		{"legacy HTTP, unsampled, sealed ids, a store, a rate limit", 17, sealedOf(server.WithStore(new(store.Memory).Store()), limit)},
		{"legacy HTTP, defaults", 17, legacyOf(withDefaults)},
		{"a legacy session, telemetry off", 96, sessionOf(off)},
		{"a legacy session, unsampled", 102, sessionOf(unsampled)},
		{"a legacy session, defaults", 102, sessionOf(withDefaults)},
		{"pipe, telemetry off", 13, pipeOf(off)},
		{"pipe, unsampled", 14, pipeOf(unsampled)},
		{"pipe, defaults", 14, pipeOf(withDefaults)},
	}
}

// costAudit returns a log with a key that writes to a file.
func costAudit(tb testing.TB, strict bool) *audit.Log {
	file, err := auditfile.New(auditfile.Config{Path: filepath.Join(tb.TempDir(), "audit.jsonl")})
	require.NoError(tb, err)
	log, err := audit.New(audit.Config{Sinks: []audit.Sink{file}, Key: bytes.Repeat([]byte{7}, audit.MinKeyBytes), Strict: strict})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, log.Close(context.Background()))
		require.Empty(tb, log.Stats()[0].Lost)
	})
	return log
}

// overPipe returns a round trip of a modern call over a pipe in memory, as over stdio.
func overPipe(tb testing.TB, srv *server.Server) func() {
	serverEnd, clientEnd := transport.Memory()
	served := make(chan error, 1)
	go func() { served <- srv.ServePipe(context.Background(), serverEnd) }()
	tb.Cleanup(func() {
		clientEnd.Close()
		<-served
	})
	in := bufio.NewReaderSize(clientEnd, 64<<10)
	frame := []byte(modern(1, "tools/call", echoed) + "\n")
	return func() {
		if _, err := clientEnd.Write(frame); err != nil {
			tb.Fatal(err)
		}
		if line, err := in.ReadSlice('\n'); err != nil || !bytes.Contains(line, []byte("xxx")) {
			tb.Fatalf("%s: %v", line, err)
		}
	}
}

// BenchmarkCost measures whole calls.
func BenchmarkCost(b *testing.B) {
	for _, row := range costRows() {
		b.Run(row.name, func(b *testing.B) {
			call := row.call(b)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}
