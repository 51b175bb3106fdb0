package task

import (
	"context"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
)

// A replica that runs tasks has a lease in the store, which it renews. Without a lease for long enough it
// is lost, and its tasks have failed.
const (
	leaseLife    = 15 * time.Second
	leaseRenewal = 5 * time.Second
	// leaseRetry is the pause after a renewal that has failed. While the store is away most of them do not
	// ask it.
	leaseRetry = time.Second
	// leaseGrace is how long a lease must have been gone until its replica is lost. When the store comes
	// back after an outage the leases are gone. A replica asks it within 10 s, the longest pause of the
	// link, and renews its lease within this time.
	leaseGrace = 15 * time.Second
)

func leaseKey(replica string) string { return "replica/{" + replica + "}" }

var leaseValue = []byte(`{"v":1}`)

// A lease is that of this replica.
type lease struct {
	link   Link
	values store.Values
	// needed reports whether tasks run here.
	needed func() bool
	// lapsed is called when the lease was gone, although tasks run here.
	lapsed func()
	// renewedAgain is called after each renewal: the store has answered.
	renewedAgain func(ctx context.Context)

	mu      sync.Mutex // guards the rest
	keeping bool
	renewed time.Time // the last time
}

// hold returns nil when the replica has its lease, which is kept while it is needed. It must be needed already: otherwise
// the goroutine that keeps it may just be about to end.
func (l *lease) hold(ctx context.Context) error {
	l.mu.Lock()
	fresh := l.keeping && time.Since(l.renewed) < leaseLife-leaseRenewal
	l.mu.Unlock()
	gone := false
	if !fresh {
		var err error
		if gone, err = l.renew(ctx); err != nil {
			return err
		}
	}
	l.mu.Lock()
	start := !l.keeping
	l.keeping = true
	l.mu.Unlock()
	if gone && !start {
		l.lapsed()
	}
	if start {
		l.link.Run(l.keep)
	}
	return nil
}

// renew reports whether the lease was gone.
func (l *lease) renew(ctx context.Context) (gone bool, err error) {
	began := time.Now()
	err = l.values.Update(ctx, leaseKey(l.link.Replica()), func(old []byte) ([]byte, time.Duration, error) {
		gone = old == nil
		return leaseValue, leaseLife, nil
	})
	if err == nil {
		l.mu.Lock()
		l.renewed = began
		l.mu.Unlock()
	}
	return gone, err
}

// keep renews the lease while it is needed.
func (l *lease) keep(ctx context.Context) {
	pause := leaseRenewal
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		l.keeping = l.needed()
		keeping := l.keeping
		l.mu.Unlock()
		if !keeping {
			return
		}
		gone, err := l.renew(ctx)
		if pause = leaseRenewal; err != nil {
			pause = leaseRetry
			continue
		}
		l.renewedAgain(ctx)
		if gone {
			l.lapsed()
		}
	}
}
