package oauth

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// An issuer has the metadata and the keys of one authorization server.
type issuer struct {
	name      string
	s         *ResourceServer
	keys      atomic.Pointer[keySet]   // nil before the first fetch
	metadata  atomic.Pointer[document] // nil before the first fetch
	sendsType atomic.Bool              // a token with the type at+jwt was accepted
	flight    singleflight.Group       // of fetches
	waiting   atomic.Int64             // requests that wait for a fetch

	mu        sync.Mutex // guards the rest
	budget    bucket     // for fetches that tokens cause
	refreshes map[refresh]uint64
	vain      vainKeys
	retired   vainKeys // key ids that have left the set a short time ago
	failing   int      // fetches that have failed since the last one that did not
	problem   error    // of the last fetch, or nil
	// introspections says whether introspections at this issuer fail.
	introspections outage
}

// A refresh is a fetch of keys: what for, and what came of it.
type refresh struct{ cause, result string }

// What keys are fetched for, and what comes of it. Both become labels of metrics.
const (
	causeFirst      = "first"
	causePeriodic   = "periodic"
	causeUnknownKey = "unknown_key"
	causeCheck      = "check"
	// causeIntrospection is no label: an introspection fetches no keys.
	causeIntrospection = "introspection"

	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultFailed    = "failed"
	resultTooSoon   = "too_soon" // nothing was fetched
)

// refreshBurst is how many fetches tokens may cause at once that find no new keys.
const refreshBurst = 3

var (
	errClosed     = errors.New("the resource server is closed")
	errTooSoon    = errors.New("the keys were fetched just now")
	errUnknownKey = errors.New("no key of the issuer has this key id")
	errUnfit      = errors.New("the key with this key id is not for this algorithm")
)

func newIssuer(s *ResourceServer, name string) *issuer {
	return &issuer{name: name, s: s, refreshes: map[refresh]uint64{}, vain: vainKeys{}, retired: vainKeys{}}
}

// lookup returns the keys that may have signed a token with a key id and an algorithm. If it does
// not know the key id, it fetches the keys, unless that was done too often in vain.
func (i *issuer) lookup(ctx context.Context, id, alg string) ([]*key, *refusal) {
	for range 2 {
		cause, seen := causeUnknownKey, i.keys.Load()
		if set := i.current(); set == nil {
			cause = causeFirst
		} else if keys, known := set.find(id, alg); len(keys) > 0 {
			return keys, nil
		} else if known {
			return nil, i.s.refuse(reasonSignature, errUnfit)
		} else if i.isVain(id) {
			break
		}
		joined, err := i.refreshSince(ctx, cause, seen)
		if set := i.current(); set != nil {
			if keys, _ := set.find(id, alg); len(keys) > 0 {
				return keys, nil
			}
		}
		if err != nil && !(errors.Is(err, errTooSoon) && i.healthy()) {
			return nil, i.unavailable(err)
		}
		if err == nil && !joined {
			i.notFound(id)
		}
		if err != nil || !joined {
			break
		}
		// Another request has begun the fetch, perhaps before the issuer had the key.
	}
	return nil, i.s.refuse(reasonSignature, fmt.Errorf("%w: %.64q", errUnknownKey, id))
}

// unavailable refuses a token of an issuer that cannot be asked.
func (i *issuer) unavailable(err error) *refusal {
	r := unavailable(i.s.cfg.MinRefreshInterval, fmt.Errorf("issuer %s: %w", i.name, err))
	if full, ok := errors.AsType[limitError](err); ok && full.name == limitWaiters {
		r.Limit = full.name
	}
	return r
}

// isVain reports whether a key id is known not to be among the keys, and counts that it is not
// asked for.
func (i *issuer) isVain(id string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.problem != nil || !i.vain.has(id, i.s.cfg.Now()) {
		return false
	}
	i.refreshes[refresh{causeUnknownKey, resultTooSoon}]++
	return true
}

// notFound remembers that a fetch has not found a key id.
func (i *issuer) notFound(id string) {
	now := i.s.cfg.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.vain.add(id, now.Add(2*i.s.cfg.MinRefreshInterval), now)
}

// askOnce lets key ids that were in the set until now cause a fetch before they are believed to be gone: during a rotation, a
// cache in front of the issuer may have answered with older keys. A key that comes and goes, because the caches disagree,
// causes one such fetch in 2 × MinRefreshInterval.
func (i *issuer) askOnce(ids []string) {
	now := i.s.cfg.Now()
	until := now.Add(2 * i.s.cfg.MinRefreshInterval)
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, id := range ids {
		if i.retired.has(id, now) {
			i.vain.add(id, until, now)
			continue
		}
		i.retired.add(id, until, now)
		delete(i.vain, id)
	}
}

// current returns the keys, or nil if there are none that may be used.
func (i *issuer) current() *keySet {
	set := i.keys.Load()
	if set == nil || i.s.cfg.Now().Sub(set.fetched) > i.s.cfg.MaxKeyAge {
		return nil
	}
	return set
}

// healthy reports whether the last fetch has succeeded.
func (i *issuer) healthy() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.problem == nil && i.current() != nil
}

// refresh fetches the keys, or waits for a fetch that has begun already.
func (i *issuer) refresh(ctx context.Context, cause string) error {
	_, err := i.refreshSince(ctx, cause, nil)
	return err
}

// refreshSince fetches the keys, unless somebody else does so or has done so since the caller has seen
// the keys: joined. It waits for the fetch.
func (i *issuer) refreshSince(ctx context.Context, cause string, seen *keySet) (joined bool, err error) {
	limit := i.s.cfg.Limits.MaxKeyWaiters
	if i.waiting.Add(1) > int64(limit) && cause != causePeriodic {
		i.waiting.Add(-1)
		i.s.counts.reached(limitWaiters)
		return false, limitError{limitWaiters, fmt.Sprintf("%d requests wait for its keys (%s)", limit, limitWaiters)}
	}
	defer i.waiting.Add(-1)
	mine := false
	done := i.flight.DoChan("", func() (any, error) {
		if !i.s.begin() {
			return nil, errClosed
		}
		defer i.s.running.Done()
		if cause == causeUnknownKey && i.keys.Load() != seen {
			return nil, nil
		}
		mine = true
		return nil, i.fetch(cause)
	})
	select {
	case r := <-done:
		return !mine, r.Err
	case <-ctx.Done():
		return false, i.abandoned(ctx)
	}
}

// fetch fetches the keys, and the metadata if it is time for that. Only one fetch runs at a time.
func (i *issuer) fetch(cause string) error {
	if cause == causeFirst || cause == causeUnknownKey {
		if err := i.spend(cause); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(i.s.ctx, i.s.cfg.Timeout)
	defer cancel()
	old := i.keys.Load()
	set, err := i.load(ctx, cause, old)
	result := resultFailed
	if err == nil {
		set.fetched = i.s.cfg.Now()
		result = resultUnchanged
		if added, removed := old.difference(set); added+removed > 0 {
			result = resultChanged
			i.s.cfg.Logger.Info("oauth.keys_changed", "issuer", i.name, "keys", len(set.all), "added", added, "removed", removed, "ignored", set.ignored)
		}
		i.askOnce(old.retire(set))
		i.keys.Store(set)
	}
	i.note(refresh{cause, result}, err)
	return err
}

// spend takes a fetch from the budget of those that tokens cause.
func (i *issuer) spend(cause string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.budget.take(i.s.cfg.Now(), refreshBurst, 1/i.s.cfg.MinRefreshInterval.Seconds()) == 0 {
		return nil
	}
	i.refreshes[refresh{cause, resultTooSoon}]++
	if i.problem != nil {
		return fmt.Errorf("%w: the last time: %w", errTooSoon, i.problem)
	}
	return errTooSoon
}

// note counts a fetch, and logs when the issuer begins or ends to fail.
func (i *issuer) note(r refresh, err error) {
	i.mu.Lock()
	i.refreshes[r]++
	failed := i.failing
	if i.problem = err; err != nil {
		i.failing++
	} else {
		i.failing = 0
	}
	if r.result == resultChanged && r.cause != causePeriodic && r.cause != causeCheck {
		i.budget.give() // the issuer has new keys: that was not in vain
	}
	i.mu.Unlock()
	i.logOutage(r.cause, failed, err)
	if limit, ok := errors.AsType[limitError](err); ok && limit.name == limitIssuerKeys {
		i.s.counts.reached(limit.name)
	}
}

// load fetches the keys. It fetches the metadata first if there is none, if the last fetch has
// failed, and at each periodic fetch.
func (i *issuer) load(ctx context.Context, cause string, old *keySet) (*keySet, error) {
	m := i.metadata.Load()
	i.mu.Lock()
	failed := i.problem != nil
	i.mu.Unlock()
	if m == nil || failed || cause == causePeriodic || cause == causeCheck {
		fetched, err := i.discover(ctx)
		if err != nil {
			return nil, err
		}
		m = fetched
		i.metadata.Store(m)
	}
	if m.JWKSURI == "" {
		return &keySet{}, nil // it has opaque tokens only
	}
	body, err := i.s.get(ctx, m.JWKSURI)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	set, err := parseKeys(body, i.s.cfg.Algorithms, i.s.cfg.Limits.MaxIssuerKeys, old)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.JWKSURI, err)
	}
	return set, nil
}

// difference counts the keys that only one of two sets has. s may be nil.
func (s *keySet) difference(with *keySet) (added, removed int) {
	return with.without(s), s.without(with)
}

// without counts the keys that other does not have. Both may be nil.
func (s *keySet) without(other *keySet) (n int) {
	if s == nil {
		return 0
	}
	for _, k := range s.all {
		if other == nil || !other.has(k) {
			n++
		}
	}
	return n
}

func (s *keySet) has(k *key) bool {
	for _, other := range s.all {
		if other == k {
			return true
		}
	}
	return false
}

// retire marks the keys that the new set does not have, and returns their ids. s may be nil.
func (s *keySet) retire(now *keySet) (ids []string) {
	if s == nil {
		return nil
	}
	for _, k := range s.all {
		if !now.has(k) {
			k.gone.Store(true)
			ids = append(ids, k.id)
		}
	}
	return ids
}

func (s *keySet) size() int {
	if s == nil {
		return 0
	}
	return len(s.all)
}

// keepFresh fetches the keys at intervals until the resource server is closed. After a failure it
// comes back sooner. The intervals differ by up to a tenth, so that replicas do not come together.
func (i *issuer) keepFresh() {
	defer i.s.running.Done()
	for {
		i.mu.Lock()
		wait := i.s.cfg.RefreshInterval
		if i.failing > 0 {
			wait = min(wait, i.s.cfg.MinRefreshInterval<<min(i.failing, 10))
		}
		i.mu.Unlock()
		wait += time.Duration((fraction() - 0.5) / 5 * float64(wait))
		timer := time.NewTimer(wait)
		select {
		case <-i.s.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			_ = i.refresh(i.s.ctx, causePeriodic) // counted and logged
		}
	}
}

// fraction returns a random number from 0 to 1.
func fraction() float64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return float64(binary.NativeEndian.Uint32(b[:])) / (1 << 32)
}
