package session

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A costWorld has one route, whose handler does nothing.
type costWorld struct{ route *Route }

func (w *costWorld) Route(*Inbound, *Session) *Route            { return w.route }
func (w *costWorld) Notify(context.Context, *Inbound, *Session) {}
func (w *costWorld) Encode(dst []byte, _ *Request, _ mcp.Result) (_, rest []byte, err error) {
	return append(dst, "{}"...), nil, nil
}

// nowhere is a sink that takes everything and keeps nothing.
type nowhere struct{ written int }

func (n *nowhere) Write(*stream.Message) error { n.written++; return nil }
func (n *nowhere) Flush() error                { return nil }
func (n *nowhere) SetWriteDeadline(time.Time)  {}

// A costRow is one way of a request through the core: admission, handler, settling, and
// the hand-over to the sink. The budgets are what they cost now.
type costRow struct {
	name string
	max  float64 // allocations
	pass func(testing.TB) func()
}

func costRows() []costRow {
	return []costRow{
		{"modern exchange", 6, func(tb testing.TB) func() { return exchanges(tb, mcp.Modern) }},
		{"legacy exchange", 7, func(tb testing.TB) func() { return exchanges(tb, mcp.Legacy) }},
	}
}

// exchanges returns what takes one call after the other through a core, each with the
// stream of an HTTP exchange.
func exchanges(tb testing.TB, era mcp.Era) func() {
	w := &costWorld{}
	core := New(Config{Dispatcher: w, Logger: slog.New(slog.DiscardHandler)})
	tb.Cleanup(func() { _ = core.Shutdown(context.Background()) })
	result := &mcp.EmptyResult{}
	w.route = &Route{
		Series: core.Series(mcp.MethodToolsCall, "echo"),
		Handle: func(context.Context, *Request) (mcp.Result, error) { return result, nil },
	}
	var s *Session
	if era == mcp.Legacy {
		opened, _, refused := core.Open(httpConn, "s1")
		if refused != nil {
			tb.Fatal(refused)
		}
		s = opened
		s.Initialize(&Peer{Version: mcp.Version20251125})
		s.Initialized()
	}
	env, err := wire.Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`), wire.DefaultLimits())
	if err != nil {
		tb.Fatal(err)
	}
	sink := &nowhere{}
	return func() {
		st := core.Exchange(httpConn, 1, era)
		in := &Inbound{Envelope: env, Era: era, Version: mcp.LatestVersion, Conn: httpConn}
		if s == nil {
			core.Receive(in, st)
		} else {
			s.ReceiveOn(in, st)
		}
		before := sink.written
		if err := st.Pump(sink); err != nil || sink.written != before+1 {
			tb.Fatalf("%d messages, %v", sink.written-before, err)
		}
	}
}

// BenchmarkCost measures what the core itself costs.
func BenchmarkCost(b *testing.B) {
	for _, row := range costRows() {
		b.Run(row.name, func(b *testing.B) {
			pass := row.pass(b)
			b.ReportAllocs()
			for b.Loop() {
				pass()
			}
		})
	}
}
