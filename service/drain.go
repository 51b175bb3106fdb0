package service

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

// drain stops serving. It makes /readyz fail, waits for the delay, drains the server, and closes
// the listener last. http.Server.Shutdown neither cancels handlers nor ends open event streams.
// And a proxy can send a refused request to another process, but not one whose connection is
// lost. At the end the admin listener waits for scrapes. hurry is closed by the second signal.
func (p *process) drain(why string, hurry <-chan struct{}) error {
	began := time.Now()
	p.draining.Store(true)
	p.srv.PrepareShutdown()
	slog.Info("drain.begin", "why", why, "shutdown_delay", p.cfg.ShutdownDelay, "drain_timeout", p.cfg.DrainTimeout)
	if p.mcp != nil && p.cfg.ShutdownDelay > 0 {
		wait(p.cfg.ShutdownDelay, hurry)
		// Clients may still have connections to this process that were idle during the delay.
		// The next call on such a connection would be refused. If it is closed, the client
		// connects to another process. A call may arrive just when its connection is closed, and
		// its client cannot know what happened to it. So with a refuse time, for clients that
		// handle refusals, connections stay open and calls are refused.
		if p.cfg.RefuseTime <= 0 {
			p.mcp.http.SetKeepAlivesEnabled(false)
		}
		slog.Info("drain.refusing", "after", time.Since(began))
	}
	refusing := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.DrainTimeout)
	defer cancel()
	err := p.srv.Shutdown(ctx)
	if left := p.cfg.RefuseTime - time.Since(refusing); p.mcp != nil && left > 0 {
		wait(left, hurry)
	}
	p.mcp.close(p.srv.Limits().CleanupGrace)
	if p.stdio != nil {
		<-p.stdio
	}
	if err != nil {
		slog.Error("drain.end", "took", time.Since(began), "error", err)
		err = fmt.Errorf("service: shutdown: %w", err)
	} else {
		slog.Info("drain.end", "took", time.Since(began))
	}
	p.linger(hurry)
	return err
}

// linger waits until all scrapers have fetched the last metrics. The drain counts the calls that it
// cancels at its end. LingerTimeout bounds the wait, and hurry ends it. hurry is closed by the
// second signal.
//
// It does not wait without an admin listener, without scrapers, and in stdio mode, because
// clients soon kill the process.
func (p *process) linger(hurry <-chan struct{}) {
	if p.cfg.LingerTimeout <= 0 || p.mcp == nil || p.admin == nil {
		return
	}
	began := time.Now()
	all, scrapers := p.last.await(p.cfg.LingerTimeout)
	slog.Info("linger.begin", "linger_timeout", p.cfg.LingerTimeout, "scrapers", scrapers)
	timer := time.NewTimer(p.cfg.LingerTimeout)
	defer timer.Stop()
	level, missing := slog.LevelInfo, 0
	select {
	case <-all:
	case <-timer.C:
		level, missing = slog.LevelWarn, p.last.missed()
	case <-hurry:
		missing = p.last.missed()
	case <-p.admin.done: // the listener broke
		missing = p.last.missed()
	}
	slog.Log(context.Background(), level, "linger.end", "scraped", scrapers-missing, "missing", missing, "took", time.Since(began))
}

// maxScrapers is the maximum number of hosts in a lastScrape. Two Prometheus servers are usual.
const maxScrapers = 16

// A lastScrape has the hosts that scrape, and waits until each of them has fetched the last
// metrics. The zero value has no hosts.
type lastScrape struct {
	mu      sync.Mutex
	served  map[string]time.Time // the end of each host's latest scrape, at most maxScrapers
	missing map[string]struct{}  // hosts that have not fetched the last metrics; nil before await
	all     chan struct{}        // closed when no host is missing
}

// await starts to wait for one more scrape of each host that has scraped within the given time. Only
// scrapes that begin after await count. It returns a channel that is closed when all hosts have
// scraped, and the number of hosts. It must be called once.
func (l *lastScrape) await(within time.Duration) (all <-chan struct{}, scrapers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missing, l.all = map[string]struct{}{}, make(chan struct{})
	for host, when := range l.served {
		if time.Since(when) <= within {
			l.missing[host] = struct{}{}
		}
	}
	if len(l.missing) == 0 {
		close(l.all)
	}
	return l.all, len(l.missing)
}

// missed returns the number of hosts that have not scraped since await.
func (l *lastScrape) missed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.missing)
}

// of wraps the handler of scrapes. A scrape counts if all of it was written. HEAD does not count.
func (l *lastScrape) of(metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			metrics.ServeHTTP(w, r)
			return
		}
		l.mu.Lock()
		last := l.missing != nil
		l.mu.Unlock()
		out := &report.Writer{ResponseWriter: w}
		metrics.ServeHTTP(out, r)
		if out.FlushError(); out.Err == nil && out.Status == http.StatusOK {
			l.scraped(report.Host(r.RemoteAddr), last)
		}
	})
}

// scraped records a scrape. last tells that the scrape began after await. The metrics of an earlier
// one may not be the last ones.
func (l *lastScrape) scraped(host string, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missing == nil {
		l.note(host)
		return
	}
	if _, awaited := l.missing[host]; awaited && last {
		delete(l.missing, host)
		if len(l.missing) == 0 {
			close(l.all)
		}
	}
}

// note sets the time of a host's scrape. If there are too many hosts, it removes the one with the
// oldest scrape. The caller must hold l.mu.
func (l *lastScrape) note(host string) {
	if l.served == nil {
		l.served = map[string]time.Time{}
	}
	l.served[host] = time.Now()
	if len(l.served) > maxScrapers {
		delete(l.served, slices.MinFunc(slices.Collect(maps.Keys(l.served)), func(a, b string) int {
			return l.served[a].Compare(l.served[b])
		}))
	}
}
