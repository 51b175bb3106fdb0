//go:build unix

package service

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/transport"
)

// BenchmarkFlight measures what an armed flight recorder adds to a call of a tool over a
// pipe in memory, with telemetry as it is by default. cpu-ns/op is the CPU time of the
// whole process, the client's side included.
func BenchmarkFlight(b *testing.B) {
	for _, armed := range []bool{false, true} {
		name := "off"
		if armed {
			name = "armed"
		}
		b.Run(name, func(b *testing.B) {
			srv := server.New("bench", "1", server.WithLogger(slog.New(slog.DiscardHandler)))
			server.AddTool(srv, server.Tool{Name: "echo"}, func(context.Context, *server.Call, struct{}) (string, error) { return "x", nil })
			serverEnd, clientEnd := transport.Memory()
			served := make(chan error, 1)
			go func() { served <- srv.ServePipe(context.Background(), serverEnd) }()
			defer func() {
				clientEnd.Close()
				<-served
			}()
			if armed {
				f, err := startFlight(defaultFlight(), srv.Telemetry(), newClock().now)
				require.NoError(b, err)
				defer f.stop()
			}
			in := bufio.NewReader(clientEnd)
			call := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{},"_meta":{` +
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n")
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				_, err := clientEnd.Write(call)
				require.NoError(b, err)
				_, err = in.ReadSlice('\n')
				require.NoError(b, err)
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkFlightSnapshot measures the taking of a snapshot of a process that does
// nothing else.
func BenchmarkFlightSnapshot(b *testing.B) {
	srv := server.New("bench", "1")
	f, err := startFlight(defaultFlight(), srv.Telemetry(), newClock().now)
	require.NoError(b, err)
	defer f.stop()
	for b.Loop() {
		_, err := f.recorder.WriteTo(io.Discard)
		require.NoError(b, err)
	}
}

// cpu returns the CPU time of the process, in nanoseconds.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}
