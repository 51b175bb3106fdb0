package telemetry

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

// Bounds of scrapes, for scrapers that read slowly or scrape too often.
const (
	maxScrapes    = 8
	scrapeTimeout = 30 * time.Second
)

// MetricsHandler serves the registry in the format that the scraper prefers: the text format of
// Prometheus, OpenMetrics (with exemplars), or protobuf (with exemplars and native histograms),
// compressed with gzip if the scraper asks for it. It serves eight scrapes at the same time, and
// a scraper has 30 seconds to read. Failures are counted ([MetricScrapeFailures]) and logged.
func (t *Telemetry) MetricsHandler() http.Handler {
	s := &scrapes{telemetry: t}
	s.metrics = promhttp.HandlerFor(containedGatherer{t}, promhttp.HandlerOpts{
		EnableOpenMetrics:  true,
		ErrorHandling:      promhttp.ContinueOnError,
		ErrorLog:           s,
		DisableCompression: true, // see serveCompressed
	})
	return s
}

// A containedGatherer gathers the registry and contains panics of the program's metrics. The
// registry makes an error of a panic in a Collector, but not of one in the function of a metric
// ([prometheus.GaugeFunc]). After such a panic only our metrics are returned.
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
			families, _ = own.Gather() // the error is the one above
		}
	}()
	return g.t.registry.Gather()
}

// scrapes is the handler of scrapes. It bounds them and counts failures.
type scrapes struct {
	telemetry *Telemetry
	metrics   http.Handler
	running   atomic.Int32
}

// ServeHTTP implements http.Handler.
func (s *scrapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.running.Add(-1)
	if s.running.Add(1) > maxScrapes {
		s.telemetry.count(MetricScrapeFailures, scrapeBusy)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many scrapes at the same time", http.StatusServiceUnavailable)
		return
	}
	rc := http.NewResponseController(w)
	bounded := rc.SetWriteDeadline(time.Now().Add(scrapeTimeout)) == nil
	out := &report.Writer{ResponseWriter: w}
	w.Header().Add("Vary", "Accept-Encoding")
	if prefersGzip(r.Header) {
		s.serveCompressed(out, r)
	} else {
		s.metrics.ServeHTTP(out, r)
	}
	_ = out.FlushError() // net/http would flush without a deadline
	if bounded {
		_ = rc.SetWriteDeadline(time.Time{})
	}
	if out.Err != nil {
		s.telemetry.count(MetricScrapeFailures, scrapeWrite)
	}
}

// serveCompressed compresses all metrics before it sends any. So a slow scraper holds only the
// compressed text in memory. Errors are not compressed.
func (s *scrapes) serveCompressed(out *report.Writer, r *http.Request) {
	body, err := s.compress(out, r)
	if err == nil && body != nil {
		out.Header().Set("Content-Encoding", "gzip")
		out.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, err = out.Write(body)
	}
	if err != nil {
		s.Println("error sending metrics:", err)
	}
}

// compress returns the compressed metrics. It returns nil if it wrote an error to out instead.
func (s *scrapes) compress(out *report.Writer, r *http.Request) ([]byte, error) {
	text := newCompressed()
	answer := &report.Writer{ResponseWriter: out, Body: text.in}
	s.metrics.ServeHTTP(answer, r)
	if answer.Status != http.StatusOK {
		return nil, nil
	}
	return text.finish()
}

// Println implements [promhttp.Logger].
func (s *scrapes) Println(v ...any) {
	text := strings.TrimSpace(fmt.Sprintln(v...))
	s.telemetry.complain("telemetry.scrape", "error", text)
	if strings.HasPrefix(text, "error gathering") { // errors of writing are counted in ServeHTTP
		s.telemetry.count(MetricScrapeFailures, scrapeGather)
	}
}

// A compressed compresses a text into memory, in independent pieces. A compressor with a window
// takes 700 KB or more. With garbage that was a tenth of the memory of the demonstration service.
type compressed struct {
	in  *bufio.Writer
	zip *gzip.Writer
	out bytes.Buffer
}

// compressedPiece is the size of a piece in bytes, the maximum of the compressor.
const compressedPiece = 32<<10 - 1

func newCompressed() *compressed {
	c := new(compressed)
	c.zip, _ = gzip.NewWriterLevel(&c.out, gzip.StatelessCompression) // fails for other levels only
	c.in = bufio.NewWriterSize(c.zip, compressedPiece)
	return c
}

// finish returns the compressed text.
func (c *compressed) finish() ([]byte, error) {
	err := errors.Join(c.in.Flush(), c.zip.Close())
	return c.out.Bytes(), err
}

// prefersGzip reports whether a scraper prefers gzip to no compression (RFC 9110, section
// 12.5.3).
func prefersGzip(h http.Header) bool {
	var gzip, identity float64
	for _, line := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, params, err := mime.ParseMediaType(coding)
			if err != nil {
				continue
			}
			weight := 1.0
			if q, ok := params["q"]; ok {
				weight, _ = strconv.ParseFloat(q, 64) // an invalid weight counts as 0
			}
			switch name {
			case "gzip":
				gzip = weight
			case "identity", "*": // * includes identity
				identity = max(identity, weight)
			}
		}
	}
	return gzip > identity
}
