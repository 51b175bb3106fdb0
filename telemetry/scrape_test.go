package telemetry

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// A pipeListener accepts the server's ends of connections in memory.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial() net.Conn {
	server, client := net.Pipe()
	l.conns <- server
	return client
}

// A scraper that does not read delays no call, and eight of them delay no other scrape. Its
// scrape ends at the write timeout.
func TestBlockedScrape(t *testing.T) {
	for name, request := range map[string]string{
		"plain":      "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
		"compressed": "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) { testBlockedScrape(t, request) })
	}
}

func testBlockedScrape(t *testing.T, request string) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		failures := func(reason string) float64 {
			return value(gather(t, r.tel.Registry()), MetricScrapeFailures, "reason", reason)
		}
		l := &pipeListener{make(chan net.Conn), make(chan struct{})}
		srv := &http.Server{Handler: r.tel.MetricsHandler()}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		scrape := func() net.Conn {
			c := l.dial()
			_, err := io.WriteString(c, request)
			require.NoError(t, err)
			return c
		}
		status := func(c net.Conn) int {
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			return res.StatusCode
		}

		var blocked []net.Conn
		for range maxScrapes {
			blocked = append(blocked, scrape())
		}
		synctest.Wait()
		begun := time.Now()
		r.post(call("echo"), &sink{})
		require.Less(t, time.Since(begun), scrapeTimeout/10, "a call does not wait for it") // the rig polls
		require.Equal(t, http.StatusServiceUnavailable, status(scrape()))
		require.EqualValues(t, 1, failures(scrapeBusy))
		require.Zero(t, failures(scrapeWrite))

		time.Sleep(scrapeTimeout)
		synctest.Wait()
		require.EqualValues(t, maxScrapes, failures(scrapeWrite))
		next := scrape()
		require.Equal(t, http.StatusOK, status(next))
		time.Sleep(2 * scrapeTimeout) // no deadline is left behind
		_, err := io.WriteString(next, request)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status(next))

		for _, c := range append(blocked, next) {
			c.Close()
		}
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}

// The metrics of other collectors are exposed when a collector of the program fails.
func TestScrapeOfABrokenCollector(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(brokenCollector{})
	r := newRig(t, rigConfig{telemetry: []Option{WithRegistry(reg)}})
	rec := httptest.NewRecorder()
	r.tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, http.StatusOK, rec.Code)
	require.True(t, strings.Contains(rec.Body.String(), MetricRequestsAdmitted))
	rec = httptest.NewRecorder()
	r.tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	require.True(t, strings.Contains(rec.Body.String(), MetricScrapeFailures+`{reason="gather"} 1`))
}

type brokenCollector struct{}

var brokenDesc = prometheus.NewDesc("users_own", "help", nil, nil)

func (brokenCollector) Describe(ch chan<- *prometheus.Desc) { ch <- brokenDesc }
func (brokenCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(brokenDesc, errors.New("out of order"))
}
