package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/server"
)

// A hangingExporter is an exporter whose endpoint does not answer.
type hangingExporter struct{}

func (hangingExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }

func (hangingExporter) Shutdown(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A recordingSink keeps the operations of its records. If it hangs, it writes nothing until the channel is
// closed, whatever its context says.
type recordingSink struct {
	hangs      <-chan struct{} // nil if it does not hang
	operations []string
}

func (*recordingSink) Name() string { return "recording" }
func (*recordingSink) Close() error { return nil }

func (s *recordingSink) Write(_ context.Context, entries []audit.Entry) (int, error) {
	if s.hangs != nil {
		<-s.hangs
	}
	for _, e := range entries {
		s.operations = append(s.operations, e.Record.Operation)
	}
	return len(entries), nil
}

// The flush time-out is for the telemetry and the audit together: docs/limits.md has it once in the sum
// that a shutdown takes at most. An endpoint that hangs does not take the time of the audit's last
// records.
func TestFlushTimeoutBoundsTelemetryAndAudit(t *testing.T) {
	for _, c := range []struct {
		title                             string
		endpointHangs, audited, sinkHangs bool
		least, most                       time.Duration
	}{
		{title: "all is well", audited: true, most: 20 * time.Millisecond},
		{title: "the endpoint hangs", endpointHangs: true, audited: true, most: 2500 * time.Millisecond},
		{title: "the endpoint hangs, and there is no audit", endpointHangs: true, least: 3 * time.Second, most: 3 * time.Second},
		{title: "the audit hangs", audited: true, sinkHangs: true, least: 3 * time.Second, most: 3 * time.Second},
		{title: "both hang", endpointHangs: true, audited: true, sinkHangs: true, least: 3 * time.Second, most: 3 * time.Second},
	} {
		t.Run(c.title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := DefaultConfig()
				a, err := openAccess(&cfg, "", false)
				require.NoError(t, err)
				p := &process{srv: server.New("x", "1"), cfg: cfg, access: a}
				if c.endpointHangs {
					require.True(t, p.srv.Telemetry().ExportSpans(hangingExporter{}))
				}
				sink := &recordingSink{}
				goOn := make(chan struct{})
				if c.sinkHangs {
					sink.hangs = goOn
				}
				if c.audited {
					a.audit, err = audit.New(audit.Config{Sinks: []audit.Sink{sink}, Key: []byte("0123456789abcdef0123456789abcdeX")})
					require.NoError(t, err)
				}

				began := time.Now()
				p.stopTelemetry()
				a.closeInTime()
				took := time.Since(began)
				close(goOn)
				synctest.Wait()
				require.LessOrEqual(t, took, c.most)
				require.GreaterOrEqual(t, took, c.least)
				if c.audited && !c.sinkHangs {
					require.Contains(t, sink.operations, audit.OperationClose)
				}
			})
		})
	}
}
