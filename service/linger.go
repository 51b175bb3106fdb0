package service

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// linger keeps the admin listener until the last figures of the process have been
// fetched: what its drain has cut is known only when it has ended, and a process that
// ends with it takes that along. It is bounded, and hurry ends it; hurry is closed by the
// second signal.
//
// There is nothing to wait for without an admin listener, and no time in stdio mode,
// whose clients kill soon.
func (p *process) linger(hurry <-chan struct{}) {
	if p.cfg.LingerTimeout <= 0 || p.mcp == nil || p.admin == nil {
		return
	}
	began := time.Now()
	slog.Info("linger.begin", "linger_timeout", p.cfg.LingerTimeout)
	answered := p.last.await()
	timer := time.NewTimer(p.cfg.LingerTimeout)
	defer timer.Stop()
	level, scraped := slog.LevelInfo, false
	select {
	case <-answered:
		scraped = true
	case <-timer.C:
		level = slog.LevelWarn
	case <-hurry:
	case <-p.admin.done: // it has broken
	}
	slog.Log(context.Background(), level, "linger.end", "scraped", scraped, "took", time.Since(began))
}

// A lastScrape notices a scrape that has seen the last figures. The zero value awaits none.
type lastScrape struct {
	awaited atomic.Pointer[chan struct{}] // not nil from await to the scrape
}

// await returns a channel that is closed after a scrape that begins from now on.
func (l *lastScrape) await() <-chan struct{} {
	answered := make(chan struct{})
	l.awaited.Store(&answered)
	return answered
}

// of returns the handler of scrapes, observed. A scrape counts if it has begun when it was
// awaited, and if all of it was written. HEAD fetches nothing.
func (l *lastScrape) of(metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered := l.awaited.Load()
		if answered == nil || r.Method != http.MethodGet {
			metrics.ServeHTTP(w, r)
			return
		}
		out := &fateWriter{ResponseWriter: w, rc: http.NewResponseController(w)}
		metrics.ServeHTTP(out, r)
		_ = out.FlushError()
		if out.err == nil && out.status == http.StatusOK && l.awaited.CompareAndSwap(answered, nil) {
			close(*answered)
		}
	})
}

// A fateWriter remembers with which status an answer was written, and whether it was.
type fateWriter struct {
	http.ResponseWriter
	rc     *http.ResponseController
	status int
	err    error
}

// Unwrap is for [http.ResponseController].
func (w *fateWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *fateWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *fateWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.saw(err)
	return n, err
}

// FlushError is for [http.ResponseController].
func (w *fateWriter) FlushError() error {
	err := w.rc.Flush()
	w.saw(err)
	return err
}

func (w *fateWriter) saw(err error) {
	if w.err == nil {
		w.err = err
	}
}
