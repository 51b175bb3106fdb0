package telemetry

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// stops counts the shutdowns of an exporter.
type stops struct{ atomic.Int32 }

func (s *stops) Shutdown(context.Context) error {
	s.Add(1)
	return nil
}

func (*stops) ForceFlush(context.Context) error { return nil }

type stoppedSpans struct{ stops }

func (*stoppedSpans) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }

type stoppedLogs struct{ stops }

func (*stoppedLogs) Export(context.Context, []sdklog.Record) error { return nil }

type stoppedMetrics struct {
	discardMetrics
	stops
}

func (e *stoppedMetrics) Shutdown(ctx context.Context) error   { return e.stops.Shutdown(ctx) }
func (e *stoppedMetrics) ForceFlush(ctx context.Context) error { return e.stops.ForceFlush(ctx) }

var _ sdkmetric.Exporter = (*stoppedMetrics)(nil)

// An export may begin while the telemetry is shut down: then it is stopped too, or does not begin.
func TestShutdownStopsExportsThatJustBegin(t *testing.T) {
	clearOTel(t)
	for range 200 {
		tel, err := New()
		require.NoError(t, err)
		var spans stoppedSpans
		var logs stoppedLogs
		var metrics stoppedMetrics
		exports := []struct {
			begin   func() bool
			stopped *stops
		}{
			{func() bool { return tel.ExportSpans(&spans) }, &spans.stops},
			{func() bool { return tel.ExportLogs(&logs) }, &logs.stops},
			{func() bool { return tel.ExportMetrics(&metrics) }, &metrics.stops},
		}
		var together sync.WaitGroup
		taken := make([]bool, len(exports))
		for i, export := range exports {
			together.Go(func() { taken[i] = export.begin() })
		}
		together.Go(func() {
			if err := tel.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
		together.Wait()
		for i, export := range exports {
			require.Equal(t, taken[i], export.stopped.Load() == 1, "export %d was taken, and is stopped", i)
		}
		require.Nil(t, tel.logs.Load(), "log records are exported no more")
	}
}
