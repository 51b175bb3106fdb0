package telemetry

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Bounds of scrapes: a scraper that reads slowly, or asks too often, holds no more than this.
const (
	maxScrapes    = 8
	scrapeTimeout = 30 * time.Second
)

// Values of the label reason of [MetricScrapeFailures].
const (
	scrapeBusy   = "busy"
	scrapeGather = "gather"
	scrapeWrite  = "write"
)

// MetricsHandler serves the registry in the format that the scraper prefers:
// Prometheus' text, OpenMetrics (which carries exemplars), or protobuf (which
// also carries native histograms), compressed with gzip if it asks for that. It serves
// eight scrapes at a time, and gives a scraper 30 seconds to read; what fails is counted
// ([MetricScrapeFailures]) and logged.
func (t *Telemetry) MetricsHandler() http.Handler {
	s := &scrapes{telemetry: t}
	s.metrics = promhttp.HandlerFor(containedGatherer{t}, promhttp.HandlerOpts{
		EnableOpenMetrics:  true,
		ErrorHandling:      promhttp.ContinueOnError,
		ErrorLog:           s,
		DisableCompression: true, // see gzipAnswer
	})
	return s
}

// A containedGatherer gathers the registry. What users have registered there may panic:
// that of a Collector is an error already, but that of a function behind a metric
// ([prometheus.GaugeFunc]) is a panic of the gathering. It costs all metrics but ours.
type containedGatherer struct{ t *Telemetry }

// Gather implements [prometheus.Gatherer].
func (g containedGatherer) Gather() (families []*dto.MetricFamily, err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		g.t.panicked("metrics", v, true)
		err = fmt.Errorf("a metric has panicked: %v", v)
		if g.t.metrics != nil {
			own := prometheus.NewRegistry()
			own.MustRegister(g.t.metrics)
			families, _ = own.Gather() // the error to tell of is that above
		}
	}()
	return g.t.registry.Gather()
}

// scrapes bounds and counts.
type scrapes struct {
	telemetry *Telemetry
	metrics   http.Handler
	running   atomic.Int32
}

// ServeHTTP implements http.Handler.
func (s *scrapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.running.Add(-1)
	if s.running.Add(1) > maxScrapes {
		s.count(scrapeBusy)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many scrapes at the same time", http.StatusServiceUnavailable)
		return
	}
	rc := http.NewResponseController(w)
	bounded := rc.SetWriteDeadline(time.Now().Add(scrapeTimeout)) == nil
	out := &scrapeWriter{ResponseWriter: w}
	w.Header().Add("Vary", "Accept-Encoding")
	if prefersGzip(r.Header) {
		answer := &gzipAnswer{ResponseWriter: out}
		s.metrics.ServeHTTP(answer, r)
		if err := answer.send(); err != nil {
			s.Println("error sending metrics:", err)
		}
	} else {
		s.metrics.ServeHTTP(out, r)
	}
	if err := rc.Flush(); err != nil && out.err == nil { // net/http would flush without a bound
		out.err = err
	}
	if bounded {
		_ = rc.SetWriteDeadline(time.Time{})
	}
	if out.err != nil {
		s.count(scrapeWrite)
	}
}

func (s *scrapes) count(reason string) {
	if m := s.telemetry.metrics; m != nil {
		m.health.scrapeFailures.WithLabelValues(reason).Inc()
	}
}

// Println implements [promhttp.Logger].
func (s *scrapes) Println(v ...any) {
	text := strings.TrimSpace(fmt.Sprintln(v...))
	s.telemetry.complain("telemetry.scrape", "error", text)
	if strings.HasPrefix(text, "error gathering") { // the others are of writing, and counted there
		s.count(scrapeGather)
	}
}

// A scrapeWriter remembers that it could not write.
type scrapeWriter struct {
	http.ResponseWriter
	err error
}

// Write implements io.Writer.
func (w *scrapeWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}
