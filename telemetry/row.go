package telemetry

// A row describes one metric. The instruments, /metrics, the push over OTLP, docs/telemetry.md and
// the dashboards read it. To add a metric, add a row to [catalogue], and record it by its name
// unless the row reads it from a snapshot.
type row struct {
	Metric
	// read takes the value from a snapshot. nil: the value is recorded.
	read func(*Snapshot, reading)
	// series are the label values of the series that exist from the start. nil: all
	// combinations of the first values of the labels.
	series [][]string
	// public tells that [Telemetry.Count] counts it.
	public bool
}

func counter(name, otel, unit, help string, labels ...Label) row {
	return row{Metric: Metric{Name: name, OTel: otel, Kind: Counter, Unit: unit, Help: help, Labels: labels}}
}

func gauge(name, otel, unit, help string, labels ...Label) row {
	return row{Metric: Metric{Name: name, OTel: otel, Kind: Gauge, Unit: unit, Help: help, Labels: labels}}
}

func histogram(name, otel, unit, help string, buckets []float64, labels ...Label) row {
	return row{Metric: Metric{Name: name, OTel: otel, Kind: Histogram, Unit: unit, Help: help, Buckets: buckets, Labels: labels}}
}

// native makes the histogram also a native one.
func (m row) native() row {
	m.Native = true
	return m
}

// from sets how the value is read from a snapshot.
func (m row) from(read func(*Snapshot, reading)) row {
	m.read = read
	return m
}

// fromSeries sets how the value is read from the counters of each series of a snapshot.
func (m row) fromSeries(read func(*SeriesCounters, reading)) row {
	return m.from(func(s *Snapshot, r reading) {
		for i := range s.Counters.Series {
			read(&s.Counters.Series[i], r)
		}
	})
}

// counted lets [Telemetry.Count] count the metric.
func (m row) counted() row {
	m.public = true
	return m
}

// startsWith sets the series that exist from the start.
func (m row) startsWith(series [][]string) row {
	m.series = series
	return m
}

// first returns the label values of the series that exist from the start.
func (m row) first() [][]string {
	if m.series != nil {
		return m.series
	}
	all := [][]string{nil}
	for _, l := range m.Labels {
		values := l.first
		if values == nil {
			values = l.Values
		}
		var longer [][]string
		for _, labels := range all {
			for _, v := range values {
				longer = append(longer, append(labels[:len(labels):len(labels)], v))
			}
		}
		all = longer
	}
	return all
}

// labelNames returns the names of the labels in Prometheus.
func (m row) labelNames() []string {
	names := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		names[i] = l.Name
	}
	return names
}
