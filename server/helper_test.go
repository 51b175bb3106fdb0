package server_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newServer returns a server named "test", version "1", whose log nobody reads.
func newServer(t testing.TB, opts ...server.Option) *server.Server {
	t.Helper()
	defaults := []server.Option{
		server.WithTelemetry(telemetry.Disabled()), server.WithLogger(slog.New(slog.DiscardHandler)),
	}
	return server.New("test", "1", append(defaults, opts...)...)
}

// text is a tool handler that ignores its call and answers with s.
func text(s string) server.ToolHandler[struct{}, string] {
	return func(context.Context, *server.Call, struct{}) (string, error) { return s, nil }
}

// A rawPipe speaks to a server in frames as a test wrote them.
type rawPipe struct {
	t      *testing.T
	conn   net.Conn
	lines  chan string // closed when the server hangs up
	served chan error
}

// dial connects a rawPipe, which is closed at the end of the test.
func dial(t *testing.T, srv *server.Server) *rawPipe {
	t.Helper()
	return dialContext(t, context.Background(), srv)
}

func dialContext(t *testing.T, ctx context.Context, srv *server.Server) *rawPipe {
	t.Helper()
	serverEnd, clientEnd := transport.Memory()
	p := &rawPipe{t: t, conn: clientEnd, lines: make(chan string, 1000), served: make(chan error, 1)}
	go func() { p.served <- srv.ServePipe(ctx, serverEnd) }()
	go func() {
		defer close(p.lines)
		for in := bufio.NewScanner(clientEnd); in.Scan(); {
			p.lines <- in.Text()
		}
	}()
	t.Cleanup(func() { p.hangUp() })
	return p
}

// hangUp closes the connection and returns what ServePipe returns.
func (p *rawPipe) hangUp() error {
	p.conn.Close()
	for range p.lines {
	}
	err, first := <-p.served
	if first {
		close(p.served)
	}
	return err
}

// send writes frames, one on a line.
func (p *rawPipe) send(frames ...string) {
	p.t.Helper()
	for _, f := range frames {
		_, err := p.conn.Write([]byte(f + "\n"))
		require.NoError(p.t, err)
	}
}

// recv returns the next frame of the server.
func (p *rawPipe) recv() string {
	p.t.Helper()
	line, ok := <-p.lines
	require.True(p.t, ok, "the server hung up")
	return line
}

// ask sends one frame and returns the next.
func (p *rawPipe) ask(frame string) string {
	p.t.Helper()
	p.send(frame)
	return p.recv()
}

// silent checks that the server has nothing to say. It works in a bubble only.
func (p *rawPipe) silent() {
	p.t.Helper()
	synctest.Wait()
	select {
	case line, ok := <-p.lines:
		require.False(p.t, ok, "unexpected: %s", line)
	default:
	}
}

// initialize does the legacy handshake.
func (p *rawPipe) initialize(version string) {
	p.t.Helper()
	answer := p.ask(legacy("init", "initialize",
		`"protocolVersion":"`+version+`","capabilities":{"roots":{}},"clientInfo":{"name":"old","version":"9"}`))
	require.Contains(p.t, answer, `"result"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// legacy returns a request without the metadata of the modern era. params are the
// members of its params.
func legacy(id any, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, jsonID(id), method, params)
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

// modern returns a request of the modern era. meta are further members of _meta.
func modern(id any, method, params string, meta ...string) string {
	members := []string{`"_meta":{` + strings.Join(append([]string{modernMeta}, meta...), ",") + `}`}
	if params != "" {
		members = append(members, params)
	}
	return legacy(id, method, strings.Join(members, ","))
}

func jsonID(id any) string {
	if s, ok := id.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(id)
}

// call is the members of the params of a tools/call.
func call(tool, arguments string) string {
	return fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments)
}

func cancelled(id any) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"changed my mind"}}`, jsonID(id))
}

// result is the answer with a result.
func result(id any, members string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%s}}`, jsonID(id), members)
}

// failure is the answer with an error.
func failure(id any, code int, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, jsonID(id), code, message)
}

// serverMeta is what every modern result of newServer says of its maker.
const serverMeta = `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}`

// A logRecord is what logRecorder keeps of a log record.
type logRecord struct {
	level   slog.Level
	message string
	attrs   map[string]string
}

// logRecorder is a slog.Handler that keeps all records.
type logRecorder struct {
	mu      sync.Mutex
	records []logRecord
}

func (l *logRecorder) Enabled(context.Context, slog.Level) bool { return true }
func (l *logRecorder) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logRecorder) WithGroup(string) slog.Handler            { return l }

func (l *logRecorder) Handle(_ context.Context, r slog.Record) error {
	rec := logRecord{level: r.Level, message: r.Message, attrs: map[string]string{}}
	r.Attrs(func(a slog.Attr) bool {
		rec.attrs[a.Key] = a.Value.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, rec)
	return nil
}

// find returns the records with a message.
func (l *logRecorder) find(message string) []logRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.records), func(r logRecord) bool { return r.message != message })
}
