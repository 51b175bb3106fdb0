package e2e

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// asProtobuf is the Accept header of a Prometheus with native histograms.
const asProtobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

// metrics is one scrape.
type metrics map[string]*dto.MetricFamily

// metrics scrapes the server.
func (s *server) metrics(t *testing.T) metrics {
	t.Helper()
	if s.behind != nil {
		return metricsOf(t, s.behind)
	}
	body, header, err := s.get("/metrics", asProtobuf)
	if err != nil {
		t.Fatal(err)
	}
	m, err := decodeMetrics(body, header)
	if err != nil {
		t.Fatalf("/metrics: %v", err)
	}
	return m
}

// decodeMetrics decodes a scrape.
func decodeMetrics(body []byte, header http.Header) (metrics, error) {
	m := metrics{}
	in := expfmt.NewDecoder(bytes.NewReader(body), expfmt.ResponseFormat(header))
	for {
		family := new(dto.MetricFamily)
		if err := in.Decode(family); errors.Is(err, io.EOF) {
			return m, nil
		} else if err != nil {
			return nil, err
		}
		m[family.GetName()] = family
	}
}

// of returns the series of a metric that have the labels, given as name, value, ...
func (m metrics) of(name string, labels ...string) (series []*dto.Metric) {
	for _, metric := range m[name].GetMetric() {
		if hasLabels(metric, labels) {
			series = append(series, metric)
		}
	}
	return series
}

func hasLabels(metric *dto.Metric, labels []string) bool {
	values := map[string]string{}
	for _, pair := range metric.GetLabel() {
		values[pair.GetName()] = pair.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if values[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// sum adds up the series of a counter, a gauge, or the count of a histogram.
func (m metrics) sum(name string, labels ...string) (sum float64) {
	for _, metric := range m.of(name, labels...) {
		sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
	}
	return sum
}

// traces returns the trace ids of the exemplars of the series.
func (m metrics) traces(name string, labels ...string) (ids []string) {
	add := func(e *dto.Exemplar) {
		for _, pair := range e.GetLabel() {
			if pair.GetName() == "trace_id" {
				ids = append(ids, pair.GetValue())
			}
		}
	}
	for _, metric := range m.of(name, labels...) {
		add(metric.GetCounter().GetExemplar())
		for _, bucket := range metric.GetHistogram().GetBucket() {
			add(bucket.GetExemplar())
		}
		for _, e := range metric.GetHistogram().GetExemplars() {
			add(e)
		}
	}
	return ids
}
