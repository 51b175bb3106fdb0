//go:build unix

package cost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A meter measures what requests cost a server in this process.
type meter struct {
	tb      testing.TB
	handler http.Handler
	base    *http.Request
	body    strings.Reader
	header  http.Header
	status  int
	bytes   int
	session string // of the legacy era
	batches string // another session, of the revision that has batches
	wire    wire
	echoes  map[bool][]echoCost // by size; of requests over a connection, and of others
	heap    []byte              // what else a server keeps: beside it the collector runs seldom, and an echo costs less
}

// A cost is what one request takes.
type cost struct {
	cpu   time.Duration
	bytes uint64 // allocated, and perhaps free again
}

// ratio returns how many times the CPU time of another cost this one is.
func (c cost) ratio(other cost) float64 { return float64(c.cpu) / float64(other.cpu) }

type echoCost struct {
	size int
	cost
}

// newMeter returns a meter of a server with everything that the targets need. Telemetry is on and
// the log is written, as in production. The server authenticates its callers, and all of them come
// through a proxy that it trusts, so that it reads what only such a server reads.
func newMeter(tb testing.TB) *meter {
	tel, err := telemetry.New()
	require.NoError(tb, err)
	srv := server.New("cost", "1", server.WithTelemetry(tel), server.WithLogger(slog.New(slog.NewJSONHandler(io.Discard, nil))),
		server.WithAuthenticator(authenticator(newResourceServer(tb))))
	addTools(srv)
	addResources(srv)
	tb.Cleanup(func() { require.NoError(tb, srv.Shutdown(context.Background())) })
	m := &meter{tb: tb, handler: srv.Handler(server.WithTrustedProxies("127.0.0.1")), header: http.Header{}, echoes: map[bool][]echoCost{}, heap: make([]byte, 64<<20)}
	ctx := context.WithValue(context.Background(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}))
	m.base, err = http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8080/mcp", nil)
	require.NoError(tb, err)
	m.base.RemoteAddr, m.base.Body = "127.0.0.1:5555", io.NopCloser(&m.body)
	m.wire.listen(tb, m.handler)
	m.batches = m.openSession("2025-03-26")
	m.session = m.openSession("2025-11-25")
	for size := 1 << 8; size <= maxLarge; size *= 2 {
		r := echoRequest(size)
		for _, r.wire = range []bool{false, true} {
			m.measure(r, 3) // fills pools
			m.echoes[r.wire] = append(m.echoes[r.wire], echoCost{r.size(), m.measure(r, 5)})
		}
	}
	return m
}

// authenticator verifies access tokens. Any other token is the name of the principal.
func authenticator(rs *oauth.ResourceServer) auth.Authenticator {
	return auth.AuthenticatorFunc(func(ctx context.Context, caller *auth.Caller) (*auth.Principal, error) {
		scheme, token, _ := strings.Cut(http.Header(caller.Header).Get("Authorization"), " ")
		switch {
		case !strings.EqualFold(scheme, "Bearer") || token == "":
			return nil, errors.New("no token")
		case isJWT(token):
			return rs.Authenticate(ctx, caller)
		}
		return &auth.Principal{Issuer: issuerName, Subject: token}, nil
	})
}

// openSession opens a session of a legacy revision, and returns its id.
func (m *meter) openSession(version string) (id string) {
	m.serve(request{body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"cost","version":"1"}}}`})
	id = m.header.Get(sessionHeader)
	require.NotEmpty(m.tb, id)
	m.serve(request{header: map[string]string{sessionHeader: id}, body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`})
	require.Equal(m.tb, http.StatusAccepted, m.status)
	return id
}

// echoRequest returns the call of a tool that returns a text of so many bytes.
func echoRequest(size int) request {
	return modern("tools/call", "echo", `"name":"echo","arguments":{"text":"`+strings.Repeat("x", size)+`"}`)
}

// serve gives one request to the server.
func (m *meter) serve(r request) {
	if r.wire {
		m.status = m.wire.send(m.tb, m.text(r))
		return
	}
	req := *m.base
	if r.method != "" {
		ctx, cancel := context.WithTimeout(req.Context(), streamTime)
		defer cancel()
		req = *req.WithContext(ctx)
		req.Method = r.method
	}
	req.Header = http.Header{}
	for name, value := range m.headers(r) {
		req.Header.Set(name, value)
	}
	m.body.Reset(r.body)
	req.ContentLength = int64(len(r.body))
	m.status, m.bytes = 0, 0
	clear(m.header)
	m.handler.ServeHTTP(m, &req)
}

// streamTime is how long a stream is open that a request has opened.
const streamTime = time.Millisecond

// headers yields the headers of a request, with those that it needs and does not have itself.
func (m *meter) headers(r request) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		all := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Authorization": "Bearer cost", "X-Forwarded-For": "192.0.2.1"}
		if _, ok := r.header["Forwarded"]; ok {
			delete(all, "X-Forwarded-For") // or the other one is not read
		}
		if r.legacy && m.session != "" {
			all[sessionHeader] = m.session
		}
		maps.Copy(all, r.header)
		for name, value := range all {
			value = strings.NewReplacer(sessionMark, m.session, batchesMark, m.batches).Replace(value)
			if !yield(name, value) {
				return
			}
		}
	}
}

// text returns a request as it is sent over a connection.
func (m *meter) text(r request) string {
	var b strings.Builder
	b.WriteString("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n")
	for name, value := range m.headers(r) {
		b.WriteString(name + ": " + value + "\r\n")
	}
	fmt.Fprintf(&b, "%sContent-Length: %d\r\n\r\n%s", r.lines, len(r.body), r.body)
	return b.String()
}

func (m *meter) Header() http.Header              { return m.header }
func (m *meter) WriteHeader(status int)           { m.status = status }
func (m *meter) Write(p []byte) (int, error)      { m.bytes += len(p); return len(p), nil }
func (m *meter) FlushError() error                { return nil }
func (m *meter) SetReadDeadline(time.Time) error  { return nil }
func (m *meter) SetWriteDeadline(time.Time) error { return nil }

// measure returns the least that a request took in several rounds: everything else that happens on
// a machine only adds.
func (m *meter) measure(r request, rounds int) (least cost) {
	least.cpu = time.Hour
	for range rounds {
		c, _ := m.round(r, shortest)
		least = cost{min(c.cpu, least.cpu), c.bytes}
	}
	return least
}

// shortest is how long a round lasts at least, because the clock is coarse.
const shortest = 500 * time.Microsecond

// round serves a request again and again until that has taken so much CPU time. It returns what one takes, and all.
func (m *meter) round(r request, least time.Duration) (once cost, all time.Duration) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin, times := cpuTime(), 0
	for all < least {
		m.serve(r)
		times++
		all = cpuTime() - begin
	}
	runtime.ReadMemStats(&after)
	return cost{all / time.Duration(times), (after.TotalAlloc - before.TotalAlloc) / uint64(times)}, all
}

// echoOf returns what an echo of as many bytes takes.
func (m *meter) echoOf(r request) cost {
	size, echoes := r.size(), m.echoes[r.wire]
	i := 1
	for i < len(echoes)-1 && echoes[i].size < size {
		i++
	}
	low, high := echoes[i-1], echoes[i]
	part := float64(max(size, low.size)-low.size) / float64(high.size-low.size)
	return cost{low.cpu + time.Duration(part*float64(high.cpu-low.cpu)), low.bytes + uint64(part*float64(int64(high.bytes)-int64(low.bytes)))}
}

// cpuTime is the CPU time of this process.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
