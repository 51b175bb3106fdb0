package service

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

// linger keeps the admin listener until everybody who scrapes has fetched the last figures:
// what the drain has cut is known only when it has ended, and a process that ends with it
// takes that along. It is bounded, and hurry ends it; hurry is closed by the second signal.
//
// There is nothing to wait for without an admin listener or if nobody scrapes, and no time
// in stdio mode, whose clients kill the process soon.
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
	case <-p.admin.done: // it has broken
		missing = p.last.missed()
	}
	slog.Log(context.Background(), level, "linger.end", "scraped", scrapers-missing, "missing", missing, "took", time.Since(began))
}

// maxScrapers is of how many hosts a lastScrape knows. Two Prometheus servers are usual.
const maxScrapers = 16

// A lastScrape knows which hosts scrape, and notices when each of them has seen the last
// figures. The zero value awaits nobody.
type lastScrape struct {
	mu      sync.Mutex
	served  map[string]time.Time // the end of each host's latest scrape, at most maxScrapers
	missing map[string]struct{}  // who has not seen the last figures; nil until await
	all     chan struct{}        // closed when nobody is missing
}

// await begins to wait for a scrape, one that begins from now on, of each host that has
// scraped within the given time. It returns a channel that is closed when they have, and how
// many they are. It must be called once.
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

// missed is how many have not scraped since await.
func (l *lastScrape) missed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.missing)
}

// of returns the handler of scrapes, observed. A scrape counts if all of it was written.
// HEAD fetches nothing.
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

// scraped notes a scrape. last is whether it has begun after await: the figures of one that
// was under way then may not be the last.
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

// note keeps when a host has scraped, and forgets who has not for longest if they are too
// many. It wants l.mu.
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
