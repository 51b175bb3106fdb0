package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// plainServer has a tool that asks nobody anything.
func plainServer(opts ...Option) *Server {
	s := New("plain", "1", append(opts, WithTelemetry(telemetry.Disabled()), WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))...)
	AddTool(s, Tool{Name: "echo"}, func(_ context.Context, _ *Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	return s
}

// nowhere is a sink.
type nowhere struct{}

func (nowhere) Write(*stream.Message) error { return nil }
func (nowhere) Flush() error                { return nil }
func (nowhere) SetWriteDeadline(time.Time)  {}

const plainCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// exchangePlain takes one call through the core, from the frame to the answer.
func exchangePlain(tb testing.TB, s *Server) {
	env, err := wire.Decode([]byte(plainCall), wire.DefaultLimits())
	if err != nil {
		tb.Fatal(err)
	}
	conn := &session.Conn{Transport: "memory"}
	st := s.core.Exchange(conn, 1, mcp.Modern)
	s.core.Receive(&session.Inbound{Envelope: env, Era: mcp.Modern, Version: mcp.LatestVersion, Conn: conn}, st)
	if err := st.Pump(nowhere{}); err != nil {
		tb.Fatal(err)
	}
}

// A handler that asks nothing costs one allocation: the request, of which its Call is a part.
// The params are not decoded.
func TestServeAllocatesTheRequestAlone(t *testing.T) {
	s := plainServer()
	h := s.routes.serve(func(context.Context, *Call) (mcp.Result, error) { return nil, nil })
	core := &session.Request{Inbound: &session.Inbound{Conn: &session.Conn{}, Envelope: wire.Envelope{
		Method: mcp.MethodToolsCall, Params: jsontext.Value("not even JSON"),
	}}}
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := h(context.Background(), &newRequest(core, middleware.Route{}).Request); err != nil {
			t.Error(err)
		}
	})
	require.Equal(t, 1.0, allocs)
}

func BenchmarkPlainCall(b *testing.B) {
	s := plainServer()
	b.ReportAllocs()
	for b.Loop() {
		exchangePlain(b, s)
	}
}

// A list that a policy filters takes no allocation for one more item.
func TestFilteredListAllocations(t *testing.T) {
	allocations := func(tools int) float64 {
		s := plainServer(WithPolicy(auth.PolicyFunc(func(_ context.Context, _ *auth.Principal, op *auth.Operation) auth.Decision {
			if op.Name == "echo" {
				return auth.Decision{}
			}
			return auth.Decision{Effect: auth.Allow}
		})))
		for i := range tools {
			AddTool(s, Tool{Name: fmt.Sprint("tool-", i)}, func(context.Context, *Call, struct{}) (string, error) { return "", nil })
		}
		shown := 0
		list := listOf(s, &s.tools, func(defs []*mcp.Tool, _ string, _ mcp.CacheHint) mcp.Result {
			shown = len(defs)
			return nil
		})
		core := &session.Request{Inbound: &session.Inbound{Conn: &session.Conn{}, Envelope: wire.Envelope{Method: mcp.MethodToolsList}}}
		req := newRequest(core, middleware.Route{})
		n := testing.AllocsPerRun(100, func() { _, _ = list(context.Background(), &req.Request) })
		require.Equal(t, tools, shown)
		return n
	}
	require.Equal(t, allocations(10), allocations(500))
}
