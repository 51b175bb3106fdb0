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

// ExportMetrics pushes the metrics of the registry once per minute (OTEL_METRIC_EXPORT_INTERVAL),
// with the names of OpenTelemetry's conventions. Otherwise it works like ExportSpans. If several
// values of [Telemetry] share a registry, only the first one takes an exporter.
func (t *Telemetry) ExportMetrics(exporter sdkmetric.Exporter) (taken bool) {
	return t.export(environment.Metrics, func() bool { return !t.metrics.pushed.Swap(true) }, func() {
		producer := &translator{prometheus.NewMetricProducer(prometheus.WithGatherer(pushGatherer{t})), t.metrics.rows}
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(t.resource), sdkmetric.WithReader(
			sdkmetric.NewPeriodicReader(&metricExporter{exporter, t.newWatch(environment.Metrics)}, sdkmetric.WithProducer(producer))))
		t.stops = append(t.stops, func(ctx context.Context) error {
			t.metrics.pushed.Store(false)
			return provider.Shutdown(ctx)
		})
	})
}

// A pushGatherer gathers the registry with the attribute keys of the catalogue. It returns no
// error, because with an error the bridge pushes nothing, even if only one metric of the program
// failed.
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
			for _, series := range f.GetMetric() { // the slice belongs to the collector
				series.Label = m.attributes(series.GetLabel())
			}
		}
	}
	return families, nil // the error is logged above
}

// A metricExporter counts and logs the failures of an exporter of metrics.
type metricExporter struct {
	sdkmetric.Exporter
	watch *watch
}

// Export implements [sdkmetric.Exporter].
func (e *metricExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	e.watch.saw(e.watch.try(func() error { return e.Exporter.Export(ctx, rm) }))
	return nil // it is counted and logged; the SDK would only print it
}

// ForceFlush implements [sdkmetric.Exporter].
func (e *metricExporter) ForceFlush(ctx context.Context) error {
	return e.watch.try(func() error { return e.Exporter.ForceFlush(ctx) })
}

// Shutdown implements [sdkmetric.Exporter].
func (e *metricExporter) Shutdown(ctx context.Context) error {
	return e.watch.try(func() error { return e.Exporter.Shutdown(ctx) })
}

// A translator replaces the names and units of the Prometheus bridge by those of the catalogue.
// It does not change metrics of the program.
type translator struct {
	sdkmetric.Producer
	rows map[string]*row // by the name in Prometheus
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

// attributes returns the labels of a series with the keys of attributes. It leaves out empty
// labels.
func (m *row) attributes(labels []*dto.LabelPair) (attrs []*dto.LabelPair) {
	for _, pair := range labels {
		at := slices.IndexFunc(m.Labels, func(l Label) bool { return l.Name == pair.GetName() })
		if at >= 0 && pair.GetValue() != "" {
			attrs = append(attrs, &dto.LabelPair{Name: &m.Labels[at].Attribute, Value: pair.Value})
		}
	}
	return attrs
}
