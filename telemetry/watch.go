package telemetry

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// A watch counts the failures of one signal's exporter. It logs the first failure in a row and the
// recovery.
type watch struct {
	t        *Telemetry
	signal   environment.Signal
	counter  prometheus.Counter
	failures atomic.Int64 // in a row
}

func (t *Telemetry) newWatch(s environment.Signal) *watch {
	return &watch{t: t, signal: s, counter: t.metrics.counter(MetricExportFailures, string(s))}
}

func (w *watch) saw(err error) {
	switch {
	case err == nil:
		if n := w.failures.Swap(0); n > 0 {
			w.t.complain("telemetry.export_recovered", "signal", w.signal, "failures", n)
		}
	default:
		w.counter.Inc()
		if w.failures.Add(1) == 1 {
			w.t.complain("telemetry.export_failed", "signal", w.signal, "error", err)
		}
	}
}

// try calls an exporter and returns its panic as an error. The exporter may be the program's
// (OTEL_*_EXPORTER may name it), and runs on a goroutine without another guard.
func (w *watch) try(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			w.t.panicked("exporter of "+string(w.signal), v, true)
			err = fmt.Errorf("the exporter has panicked: %v", v)
		}
	}()
	return f()
}
