package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// Values of the label reason of [MetricSpansDropped] and [MetricLogRecordsDropped].
const (
	lostQueueFull    = "queue_full"
	lostExportFailed = "export_failed"
)

// health holds the metrics about telemetry itself.
type health struct {
	build             prometheus.Gauge
	spans, logRecords queueHealth
	failures          *prometheus.CounterVec
	// scrapeFailures counts scrapes that were refused or not read to their end.
	scrapeFailures *prometheus.CounterVec
	readiness      *prometheus.CounterVec
	// Of the flight recorder.
	snapshots       *prometheus.CounterVec
	triggersDropped *prometheus.CounterVec

	evicted, spansLeftOut          *prometheus.CounterVec
	liveListeners                  prometheus.Gauge
	liveFramesSkipped, liveRefused prometheus.Counter
}

func newHealth(byName map[string]Metric) *health {
	opts := func(name string) prometheus.Opts {
		return prometheus.Opts{Name: name, Help: byName[name].Help}
	}
	vec := func(name string) *prometheus.CounterVec {
		labels := byName[name].Labels
		v := prometheus.NewCounterVec(prometheus.CounterOpts(opts(name)), labelNames(labels))
		for _, value := range labels[0].Values {
			v.WithLabelValues(value)
		}
		return v
	}
	queueOf := func(exported, dropped, queued string) queueHealth {
		return queueHealth{
			exported: prometheus.NewCounter(prometheus.CounterOpts(opts(exported))), dropped: vec(dropped),
			queued: prometheus.NewGauge(prometheus.GaugeOpts(opts(queued))),
		}
	}
	b := readBuild()
	info := opts(MetricBuildInfo)
	info.ConstLabels = prometheus.Labels{"version": b.version, "revision": b.revision, "goversion": b.goVersion}
	h := &health{
		build:      prometheus.NewGauge(prometheus.GaugeOpts(info)),
		spans:      queueOf(MetricSpansExported, MetricSpansDropped, MetricSpansQueued),
		logRecords: queueOf(MetricLogRecordsExported, MetricLogRecordsDropped, MetricLogRecordsQueued),
		failures:   vec(MetricExportFailures),

		scrapeFailures:  vec(MetricScrapeFailures),
		snapshots:       vec(MetricFlightSnapshots),
		triggersDropped: vec(MetricFlightTriggersDropped),
	}
	h.evicted, h.spansLeftOut = vec(MetricTracesEvicted), vec(MetricTraceSpansLeftOut)
	h.liveListeners = prometheus.NewGauge(prometheus.GaugeOpts(opts(MetricLiveListeners)))
	h.liveFramesSkipped = prometheus.NewCounter(prometheus.CounterOpts(opts(MetricLiveFramesSkipped)))
	h.liveRefused = prometheus.NewCounter(prometheus.CounterOpts(opts(MetricLiveRefused)))
	h.readiness = prometheus.NewCounterVec(prometheus.CounterOpts(opts(MetricReadinessChanges)), labelNames(byName[MetricReadinessChanges].Labels))
	for _, state := range session.ReadinessStates() {
		h.readiness.WithLabelValues(state, "")
	}
	h.build.Set(1)
	return h
}

func (h *health) all() []prometheus.Collector {
	return []prometheus.Collector{
		h.build, h.spans.exported, h.spans.dropped, h.spans.queued,
		h.logRecords.exported, h.logRecords.dropped, h.logRecords.queued, h.failures, h.scrapeFailures, h.snapshots, h.triggersDropped,
		h.evicted, h.spansLeftOut, h.liveListeners, h.liveFramesSkipped, h.liveRefused, h.readiness,
	}
}

// Describe implements [prometheus.Collector].
func (h *health) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range h.all() {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (h *health) Collect(ch chan<- prometheus.Metric) {
	for _, c := range h.all() {
		c.Collect(ch)
	}
}
