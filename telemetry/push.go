package telemetry

import (
	"context"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/contrib/bridges/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// ExportMetrics pushes the metrics of the registry once a minute (OTEL_METRIC_EXPORT_INTERVAL),
// under the names that the conventions of OpenTelemetry have for them, as ExportSpans exports
// spans. Of several values that share a registry, the first one pushes its metrics.
func (t *Telemetry) ExportMetrics(exporter sdkmetric.Exporter) (taken bool) {
	if !t.claim(environment.Metrics, t.metrics != nil && !t.metrics.pushed.Swap(true)) {
		return false
	}
	producer := &translator{prometheus.NewMetricProducer(prometheus.WithGatherer(pushGatherer{t})), t.metrics.rows}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(t.resource), sdkmetric.WithReader(
		sdkmetric.NewPeriodicReader(&metricExporter{exporter, t.newWatch(environment.Metrics)}, sdkmetric.WithProducer(producer))))
	t.stopWith(func(ctx context.Context) error {
		t.metrics.pushed.Store(false)
		return provider.Shutdown(ctx)
	})
	return true
}

// A pushGatherer gathers what can be had, with the attribute keys of the catalogue: the bridge would push nothing at all because of
// one metric of the program's own that fails.
type pushGatherer struct{ t *Telemetry }

// Gather implements the bridge's Gatherer.
func (g pushGatherer) Gather() ([]*dto.MetricFamily, error) {
	families, err := containedGatherer(g).Gather()
	if err != nil {
		g.t.complain("telemetry.scrape", "error", err.Error())
		g.t.count(MetricScrapeFailures, scrapeGather)
	}
	for _, f := range families {
		if m, ours := g.t.metrics.rows[f.GetName()]; ours {
			for _, series := range f.GetMetric() { // the labels are the collector's
				series.Label = m.attributes(series.GetLabel())
			}
		}
	}
	return families, nil // what is wrong with the rest is told above
}

// metricExporter watches an exporter of metrics.
type metricExporter struct {
	sdkmetric.Exporter
	watch *watch
}

// Export implements [sdkmetric.Exporter].
func (e *metricExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	e.watch.saw(e.watch.try(func() error { return e.Exporter.Export(ctx, rm) }))
	return nil // seen; the SDK would only print it
}

// ForceFlush implements [sdkmetric.Exporter].
func (e *metricExporter) ForceFlush(ctx context.Context) error {
	return e.watch.try(func() error { return e.Exporter.ForceFlush(ctx) })
}

// Shutdown implements [sdkmetric.Exporter].
func (e *metricExporter) Shutdown(ctx context.Context) error {
	return e.watch.try(func() error { return e.Exporter.Shutdown(ctx) })
}

// A translator gives what the Prometheus bridge produces the names and units of the catalogue.
// Metrics that are not ours pass as they are.
type translator struct {
	sdkmetric.Producer
	rows map[string]row // by the name that Prometheus sees
}

// Produce implements [sdkmetric.Producer].
func (tr *translator) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	scopes, err := tr.Producer.Produce(ctx)
	for _, scope := range scopes {
		for i := range scope.Metrics {
			if m, ours := tr.rows[scope.Metrics[i].Name]; ours {
				scope.Metrics[i].Name, scope.Metrics[i].Unit = m.OTel, m.Unit
			}
		}
	}
	return scopes, err
}

// attributes returns the labels of a series under the keys of attributes. An empty label is an
// absent attribute.
func (m row) attributes(labels []*dto.LabelPair) (attrs []*dto.LabelPair) {
	for _, pair := range labels {
		at := slices.IndexFunc(m.Labels, func(l Label) bool { return l.Name == pair.GetName() })
		if at >= 0 && pair.GetValue() != "" {
			attrs = append(attrs, &dto.LabelPair{Name: &m.Labels[at].Attribute, Value: pair.Value})
		}
	}
	return attrs
}
