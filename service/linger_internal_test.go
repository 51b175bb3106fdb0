package service

import (
	"bytes"
	"cmp"
	"errors"
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

// TestLastScrape: what ends the lingering is a scrape that has begun when the figures were
// the last ones, and that has arrived.
func TestLastScrape(t *testing.T) {
	gone := errors.New("gone")
	figures := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "figures 1\n") }
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
			var answered <-chan struct{}
			if !c.early {
				answered = l.await()
			}
			scrape := l.of(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if answered == nil {
					answered = l.await()
				}
				c.metrics(w, r)
			}))
			method := cmp.Or(c.method, http.MethodGet)
			for range 2 {
				scrape.ServeHTTP(&brokenWriter{httptest.NewRecorder(), c.write, c.flush}, httptest.NewRequest(method, pathMetrics, nil))
				select {
				case <-answered:
					require.True(t, c.counts)
				default:
					require.False(t, c.counts)
				}
				if c.early {
					return // the next one is not too early
				}
			}
		})
	}
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
			time.AfterFunc(7*time.Second, func() { close(*p.last.awaited.Load()) })
		}, 7 * time.Second,
			[]string{`msg=linger.begin linger_timeout=20s`, `level=INFO msg=linger.end scraped=true took=7s`}},
		{"nobody scrapes", func(*process, chan struct{}) {}, bound, []string{`level=WARN msg=linger.end scraped=false took=20s`}},
		{"second signal", func(_ *process, hurry chan struct{}) { after(time.Second, hurry) }, time.Second,
			[]string{`level=INFO msg=linger.end scraped=false took=1s`}},
		{"second signal before", func(_ *process, hurry chan struct{}) { close(hurry) }, 0,
			[]string{`level=INFO msg=linger.end scraped=false took=0s`}},
		{"listener broke", func(p *process, _ chan struct{}) { after(time.Second, p.admin.done) }, time.Second,
			[]string{`level=INFO msg=linger.end scraped=false took=1s`}},
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
