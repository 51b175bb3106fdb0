package service

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A brokenWriter is that of a peer that has gone.
type brokenWriter struct {
	http.ResponseWriter
	write, flush error
}

func (w *brokenWriter) Write(p []byte) (int, error) { return len(p), w.write }
func (w *brokenWriter) FlushError() error           { return w.flush }

// scrapeFrom lets a host scrape.
func scrapeFrom(scrape http.Handler, host string) {
	r := httptest.NewRequest(http.MethodGet, pathMetrics, nil)
	r.RemoteAddr = host + ":1234"
	scrape.ServeHTTP(httptest.NewRecorder(), r)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func figures(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "figures 1\n") }

// TestLastScrape: what ends the lingering is a scrape that has begun when the figures were
// the last ones, and that has arrived.
func TestLastScrape(t *testing.T) {
	const host = "192.0.2.1" // httptest's
	gone := errors.New("gone")
	for _, c := range []struct {
		title, method string
		early         bool // the figures may still change when the scrape begins
		metrics       http.HandlerFunc
		write, flush  error
		counts        bool
	}{
		{title: "scrape", metrics: figures, counts: true},
		{title: "with a status", metrics: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusOK); figures(w, r) }, counts: true},
		{title: "begun too early", metrics: figures, early: true},
		{title: "header only", method: http.MethodHead, metrics: figures},
		{title: "too many at once", metrics: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) }},
		{title: "nothing", metrics: func(http.ResponseWriter, *http.Request) {}},
		{title: "not written", metrics: figures, write: gone},
		{title: "not flushed", metrics: figures, flush: gone},
	} {
		t.Run(c.title, func(t *testing.T) {
			var l lastScrape
			var all <-chan struct{}
			scrapeFrom(l.of(http.HandlerFunc(figures)), host)
			await := func() {
				var n int
				all, n = l.await(time.Hour)
				require.Equal(t, 1, n)
			}
			if !c.early {
				await()
			}
			scrape := l.of(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if all == nil {
					await()
				}
				c.metrics(w, r)
			}))
			method := cmp.Or(c.method, http.MethodGet)
			for range 2 {
				scrape.ServeHTTP(&brokenWriter{httptest.NewRecorder(), c.write, c.flush}, httptest.NewRequest(method, pathMetrics, nil))
				require.Equal(t, c.counts, isClosed(all))
				require.Equal(t, c.counts, l.missed() == 0)
				if c.early {
					return // the next one is not too early
				}
			}
		})
	}
}

// TestScrapers checks that the service waits for each host that has scraped lately, and no other.
func TestScrapers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lastScrape
		scrape := l.of(http.HandlerFunc(figures))
		scrapeFrom(scrape, "gone")
		time.Sleep(time.Minute)
		scrapeFrom(scrape, "[::1]")
		scrapeFrom(scrape, "10.0.0.1")
		l.of(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, pathMetrics, nil))
		all, n := l.await(time.Minute - 1)
		require.Equal(t, 2, n)
		scrapeFrom(scrape, "10.0.0.1")
		scrapeFrom(scrape, "10.0.0.1")
		scrapeFrom(scrape, "a passer-by")
		require.False(t, isClosed(all))
		require.Equal(t, 1, l.missed())
		scrapeFrom(scrape, "[::1]")
		require.True(t, isClosed(all))
		scrapeFrom(scrape, "[::1]")
		require.Zero(t, l.missed())

		var nobody lastScrape
		all, n = nobody.await(time.Hour)
		require.Zero(t, n)
		require.True(t, isClosed(all))
	})
}

// TestManyScrapers: who asks from many addresses takes no memory, and Prometheus, which
// comes again and again, is not forgotten for that.
func TestManyScrapers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lastScrape
		scrape := l.of(http.HandlerFunc(figures))
		for i := range 5 * maxScrapers {
			time.Sleep(time.Second)
			scrapeFrom(scrape, fmt.Sprintf("10.0.0.%d", i))
			if i%(maxScrapers/2) == 0 {
				scrapeFrom(scrape, "prometheus")
			}
		}
		_, n := l.await(time.Hour)
		require.Equal(t, maxScrapers, n)
		require.Contains(t, l.missing, "prometheus")
	})
}

// TestLinger: it waits for the first of a scrape, the end of its time, a second signal and
// the end of the listener, and says which it was.
func TestLinger(t *testing.T) {
	const bound = 20 * time.Second
	after := func(d time.Duration, ch chan struct{}) { time.AfterFunc(d, func() { close(ch) }) }
	for _, c := range []struct {
		title  string
		change func(p *process, hurry chan struct{})
		took   time.Duration
		log    []string
	}{
		{"scraped", func(p *process, _ chan struct{}) {
			time.AfterFunc(7*time.Second, func() { p.last.scraped("prometheus", true) })
		}, 7 * time.Second,
			[]string{`msg=linger.begin linger_timeout=20s scrapers=1`, `level=INFO msg=linger.end scraped=1 missing=0 took=7s`}},
		{"one of two", func(p *process, _ chan struct{}) {
			p.last.scraped("another", false)
			time.AfterFunc(7*time.Second, func() { p.last.scraped("another", true) })
		}, bound, []string{`msg=linger.begin linger_timeout=20s scrapers=2`, `level=WARN msg=linger.end scraped=1 missing=1 took=20s`}},
		{"not any more", func(*process, chan struct{}) {}, bound, []string{`level=WARN msg=linger.end scraped=0 missing=1 took=20s`}},
		{"nobody scrapes", func(p *process, _ chan struct{}) { p.last = lastScrape{} }, 0,
			[]string{`scrapers=0`, `level=INFO msg=linger.end scraped=0 missing=0 took=0s`}},
		{"second signal", func(_ *process, hurry chan struct{}) { after(time.Second, hurry) }, time.Second,
			[]string{`level=INFO msg=linger.end scraped=0 missing=1 took=1s`}},
		{"second signal before", func(_ *process, hurry chan struct{}) { close(hurry) }, 0,
			[]string{`level=INFO msg=linger.end scraped=0 missing=1 took=0s`}},
		{"listener broke", func(p *process, _ chan struct{}) { after(time.Second, p.admin.done) }, time.Second,
			[]string{`level=INFO msg=linger.end scraped=0 missing=1 took=1s`}},
		{"off", func(p *process, _ chan struct{}) { p.cfg.LingerTimeout = 0 }, 0, nil},
		{"no admin listener", func(p *process, _ chan struct{}) { p.admin = nil }, 0, nil},
		{"stdio", func(p *process, _ chan struct{}) { p.mcp = nil }, 0, nil},
	} {
		t.Run(c.title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				defer setDefaultLogger(slog.NewTextHandler(&log, nil))()
				p, hurry := &process{mcp: &listener{}, admin: &listener{done: make(chan struct{})}}, make(chan struct{})
				p.cfg.LingerTimeout = bound
				p.last.scraped("prometheus", false)
				c.change(p, hurry)
				began := time.Now()
				p.linger(hurry)
				require.Equal(t, c.took, time.Since(began))
				for _, want := range c.log {
					require.Contains(t, log.String(), want)
				}
				if c.log == nil {
					require.Empty(t, log.String())
				}
			})
		})
	}
}
