//go:build unix

package cost

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A meter measures what requests cost a server in this process.
type meter struct {
	handler http.Handler
	base    *http.Request
	body    strings.Reader
	header  http.Header
	status  int
	bytes   int
	echoes  []echoCost // by size
}

// A cost is what one request takes.
type cost struct {
	cpu   time.Duration
	bytes uint64 // allocated, and perhaps free again
}

type echoCost struct {
	size int
	cost
}

// newMeter returns a meter of a server with everything that the targets need. Telemetry is on and
// the log is written, as in production.
func newMeter(tb testing.TB) *meter {
	tel, err := telemetry.New()
	require.NoError(tb, err)
	srv := server.New("cost", "1", server.WithTelemetry(tel), server.WithLogger(slog.New(slog.NewJSONHandler(io.Discard, nil))))
	addTools(srv)
	addResources(srv)
	tb.Cleanup(func() { require.NoError(tb, srv.Shutdown(context.Background())) })
	m := &meter{handler: srv.Handler(), header: http.Header{}}
	ctx := context.WithValue(context.Background(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}))
	m.base, err = http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8080/mcp", nil)
	require.NoError(tb, err)
	m.base.RemoteAddr, m.base.Body = "127.0.0.1:5555", io.NopCloser(&m.body)
	for size := 1 << 8; size <= maxLarge; size *= 2 {
		r := echoRequest(size)
		m.measure(r, 3) // fills pools
		m.echoes = append(m.echoes, echoCost{r.size(), m.measure(r, 5)})
	}
	return m
}

// echoRequest returns the call of a tool that returns a text of so many bytes.
func echoRequest(size int) request {
	return modern("tools/call", "echo", `"name":"echo","arguments":{"text":"`+strings.Repeat("x", size)+`"}`)
}

// serve gives one request to the server.
func (m *meter) serve(r request) {
	req := *m.base
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	m.body.Reset(r.body)
	req.ContentLength = int64(len(r.body))
	m.status, m.bytes = 0, 0
	clear(m.header)
	m.handler.ServeHTTP(m, &req)
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
		c := m.round(r)
		least = cost{min(c.cpu, least.cpu), c.bytes}
	}
	return least
}

// shortest is how long a round lasts at least, because the clock is coarse.
const shortest = 500 * time.Microsecond

// round serves a request several times and returns what it takes once.
func (m *meter) round(r request) cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin, times := cpuTime(), 0
	var spent time.Duration
	for spent < shortest {
		m.serve(r)
		times++
		spent = cpuTime() - begin
	}
	runtime.ReadMemStats(&after)
	return cost{spent / time.Duration(times), (after.TotalAlloc - before.TotalAlloc) / uint64(times)}
}

// echoOf returns what an echo of as many bytes takes.
func (m *meter) echoOf(size int) cost {
	i := 1
	for i < len(m.echoes)-1 && m.echoes[i].size < size {
		i++
	}
	low, high := m.echoes[i-1], m.echoes[i]
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
