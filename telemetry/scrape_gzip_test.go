package telemetry

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

// steady returns telemetry whose metrics are the same in each scrape.
func steady(t *testing.T, more ...prometheus.Collector) *Telemetry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(more...)
	return newRig(t, rigConfig{telemetry: []Option{WithRegistry(reg)}}).tel
}

// scrapeWith asks a handler with pairs of header and value.
func scrapeWith(h http.Handler, w http.ResponseWriter, header ...string) {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	h.ServeHTTP(w, r)
}

// TestCompressedScrape checks that compressed metrics are the same as uncompressed ones, in each
// format.
func TestCompressedScrape(t *testing.T) {
	h := steady(t).MetricsHandler()
	for _, accept := range []string{
		"text/plain;version=0.0.4",
		"application/openmetrics-text;version=1.0.0",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	} {
		plain, compressed := httptest.NewRecorder(), httptest.NewRecorder()
		scrapeWith(h, plain, "Accept", accept)
		scrapeWith(h, compressed, "Accept", accept, "Accept-Encoding", "gzip")

		require.Equal(t, http.StatusOK, compressed.Code)
		body := compressed.Body.Bytes()
		require.Equal(t, plain.Body.String(), unzip(t, body))
		require.Less(t, 3*len(body), plain.Body.Len())
		header := compressed.Header()
		require.Equal(t, strconv.Itoa(len(body)), header.Get("Content-Length"))
		require.Equal(t, "gzip", header.Get("Content-Encoding"))
		require.Equal(t, plain.Header().Get("Content-Type"), header.Get("Content-Type"))
		require.Empty(t, plain.Header().Get("Content-Encoding"))
		for _, h := range []http.Header{header, plain.Header()} {
			require.ElementsMatch(t, []string{"Accept", "Accept-Encoding"}, h.Values("Vary"))
		}
	}
}

// TestScrapeEncoding checks that metrics are compressed only if the request accepts gzip, and that
// an empty answer never is.
func TestScrapeEncoding(t *testing.T) {
	h := steady(t).MetricsHandler()
	tests := []struct {
		asked []string
		gzip  bool
	}{
		{[]string{"gzip"}, true},
		{[]string{"GZip"}, true},
		{[]string{"gzip, deflate, br, zstd"}, true},
		{[]string{"zstd;q=1, gzip ; q=0.5"}, true},
		{[]string{"identity;q=0.5, gzip"}, true},
		{[]string{"identity;q=0, gzip;q=0.001"}, true},
		{[]string{"*;q=0.5, gzip"}, true},
		{[]string{"br", "gzip"}, true},
		{[]string{"=, gzip"}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{"br"}, false},
		{[]string{"identity"}, false},
		{[]string{"gzip;q=0"}, false},
		{[]string{"gzip;q=0, *"}, false},
		{[]string{"*"}, false},
		{[]string{"gzip, *"}, false},
		{[]string{"gzip, identity"}, false},
		{[]string{"gzip;q=0.4", "identity;q=0.5"}, false},
		{[]string{"gzip;q=much"}, false},
		{[]string{"gzip;q=NaN"}, false},
		{[]string{"gzipped"}, false},
	}
	for _, tt := range tests {
		var header []string
		for _, line := range tt.asked {
			header = append(header, "Accept-Encoding", line)
		}
		w := httptest.NewRecorder()
		scrapeWith(h, w, header...)
		require.Equal(t, tt.gzip, w.Header().Get("Content-Encoding") == "gzip", "%q", tt.asked)
		text := w.Body.String()
		if tt.gzip {
			text = unzip(t, w.Body.Bytes())
		}
		require.Contains(t, text, MetricRequestsAdmitted, "%q", tt.asked)
	}

	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/metrics?name[]=none", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, w.Header().Get("Content-Encoding"))
	require.Zero(t, w.Body.Len())
}

// TestFailedScrapeIsPlain checks that an error is not compressed, because people read it.
func TestFailedScrapeIsPlain(t *testing.T) {
	tel := Disabled()
	tel.logger = slog.New(slog.DiscardHandler)
	tel.Registry().MustRegister(brokenCollector{})
	w := httptest.NewRecorder()
	scrapeWith(tel.MetricsHandler(), w, "Accept-Encoding", "gzip")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Empty(t, w.Header().Get("Content-Encoding"))
	require.Contains(t, w.Body.String(), "out of order")
}

// TestHeadOfACompressedScrape checks that HEAD answers with the headers of GET and without a
// body.
func TestHeadOfACompressedScrape(t *testing.T) {
	srv := httptest.NewServer(steady(t).MetricsHandler())
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	ask := func(method string) (http.Header, []byte) {
		r, err := http.NewRequest(method, srv.URL, nil)
		require.NoError(t, err)
		r.Header.Set("Accept-Encoding", "gzip")
		resp, err := client.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Header.Del("Date")
		return resp.Header, body
	}
	header, body := ask(http.MethodGet)
	require.Contains(t, unzip(t, body), MetricRequestsAdmitted)
	ofHead, none := ask(http.MethodHead)
	require.Equal(t, header, ofHead)
	require.Empty(t, none)
}

// A lostWriter is the response writer of a client that has disconnected.
type lostWriter struct{ http.ResponseWriter }

func (lostWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestLostScrape checks that scrapers which disconnect in the middle are counted, and logged once.
func TestLostScrape(t *testing.T) {
	var records strings.Builder
	r := newRig(t, rigConfig{telemetry: []Option{WithLogger(slog.New(slog.NewTextHandler(&records, nil)))}})
	scrapeWith(r.tel.MetricsHandler(), lostWriter{httptest.NewRecorder()}, "Accept-Encoding", "gzip")
	require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricScrapeFailures, "reason", scrapeWrite))
	require.Equal(t, 1, strings.Count(records.String(), "broken pipe"), records.String())
}

// TestConcurrentScrapes checks that scrapes share no state.
func TestConcurrentScrapes(t *testing.T) {
	h := steady(t).MetricsHandler()
	plain := httptest.NewRecorder()
	scrapeWith(h, plain)
	answers := make([]*httptest.ResponseRecorder, maxScrapes)
	var all sync.WaitGroup
	for i := range answers {
		answers[i] = httptest.NewRecorder()
		all.Go(func() {
			for range 10 {
				*answers[i] = *httptest.NewRecorder()
				scrapeWith(h, answers[i], "Accept-Encoding", "gzip")
			}
		})
	}
	all.Wait()
	for _, w := range answers {
		require.Equal(t, plain.Body.String(), unzip(t, w.Body.Bytes()))
	}
}

// A watchedMetric knows whether its gathered values are still in memory.
type watchedMetric struct{ gathered weak.Pointer[dto.Metric] }

var watchedDesc = prometheus.NewDesc("users_watched", "help", nil, nil)

func (m *watchedMetric) Describe(ch chan<- *prometheus.Desc) { ch <- watchedDesc }
func (m *watchedMetric) Collect(ch chan<- prometheus.Metric) { ch <- m }
func (m *watchedMetric) Desc() *prometheus.Desc              { return watchedDesc }
func (m *watchedMetric) Write(out *dto.Metric) error {
	m.gathered = weak.Make(out)
	out.Gauge = &dto.Gauge{Value: new(1.0)}
	return nil
}

// TestSlowScrapeHoldsNothing checks that the gathered metrics are freed while a scraper still
// reads.
func TestSlowScrapeHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &watchedMetric{}
		r := newRig(t, rigConfig{telemetry: []Option{WithRegistry(prometheus.NewRegistry())}})
		many := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "users_many"}, []string{"noise"})
		for range 10000 { // more than a compressor keeps to itself
			many.WithLabelValues(strconv.FormatUint(rand.Uint64(), 36)).Set(rand.Float64())
		}
		r.tel.Registry().MustRegister(m, many)
		l := &pipeListener{make(chan net.Conn), make(chan struct{})}
		srv := &http.Server{Handler: r.tel.MetricsHandler()}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		c := l.dial()
		_, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
		require.NoError(t, err)
		synctest.Wait() // nobody reads
		runtime.GC()
		require.Nil(t, m.gathered.Value())
		require.Zero(t, value(gather(t, r.tel.Registry()), MetricScrapeFailures, "reason", scrapeWrite), "it waits")
		c.Close()
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}

// A watchedWriter looks whether a compressor is in memory when it is written to.
type watchedWriter struct {
	*httptest.ResponseRecorder
	compressor weak.Pointer[bufio.Writer] // a part of it
	kept       bool
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	runtime.GC()
	w.kept = w.compressor.Value() != nil
	return w.ResponseRecorder.Write(p)
}

// TestSlowScrapeHoldsNoCompressor checks that the compressor is freed before the scraper reads.
func TestSlowScrapeHoldsNoCompressor(t *testing.T) {
	w := &watchedWriter{ResponseRecorder: httptest.NewRecorder()}
	s := &scrapes{telemetry: Disabled(), metrics: http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		w.compressor = weak.Make(answer.(*report.Writer).Body.(*bufio.Writer))
		_, err := io.WriteString(answer, "up 1\n")
		require.NoError(t, err)
	})}
	scrapeWith(s, w, "Accept-Encoding", "gzip")
	require.False(t, w.kept)
	require.Equal(t, "up 1\n", unzip(t, w.Body.Bytes()))
}

// TestScrapeKeepsNothing checks that the memory of a scrape is freed after it. What is in a pool
// survives one run of the garbage collector, but not two.
func TestScrapeKeepsNothing(t *testing.T) {
	h := steady(t).MetricsHandler()
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	least := int64(math.MaxInt64)
	for range 5 { // goroutines of other tests may still be about to end
		live()
		live()
		scrapeWith(h, discarded{http.Header{}}, "Accept-Encoding", "gzip")
		kept := live()
		live()
		least = min(least, kept-live())
	}
	require.Less(t, least, int64(400<<10))
}

// discarded is a response writer that discards the answer.
type discarded struct{ header http.Header }

func (w discarded) Header() http.Header         { return w.header }
func (w discarded) Write(p []byte) (int, error) { return len(p), nil }
func (w discarded) WriteHeader(int)             {}

// unzip decompresses a file of exactly one gzip member, and checks its sum and size.
func unzip(t require.TestingT, compressed []byte) string {
	rest := bytes.NewReader(compressed)
	in, err := gzip.NewReader(rest)
	require.NoError(t, err)
	in.Multistream(false)
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Zero(t, rest.Len(), "bytes after the end")
	return string(text)
}
