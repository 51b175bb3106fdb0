package oauth

import "time"

// A bucket is a token bucket of which a token can be given back: for what turns out not to be held
// against the caller. The zero value is full. It needs a lock of its owner's.
type bucket struct {
	taken float64 // tokens, at the time last
	last  time.Time
}

// wait returns the time until there is a token, or 0.
func (b *bucket) wait(now time.Time, burst, perSecond float64) time.Duration {
	b.refill(now, perSecond)
	if missing := b.taken + 1 - burst; missing > 0 {
		return max(time.Duration(missing/perSecond*float64(time.Second)), 1)
	}
	return 0
}

// take takes a token. If there is none, it returns the time until there is one.
func (b *bucket) take(now time.Time, burst, perSecond float64) time.Duration {
	wait := b.wait(now, burst, perSecond)
	if wait == 0 {
		b.taken++
	}
	return wait
}

// owe takes a token even if there is none.
func (b *bucket) owe(now time.Time, perSecond float64) {
	b.refill(now, perSecond)
	b.taken++
}

// give gives a token back.
func (b *bucket) give() { b.taken = max(b.taken-1, 0) }

// full reports whether the bucket is as good as a new one.
func (b *bucket) full(now time.Time, perSecond float64) bool {
	b.refill(now, perSecond)
	return b.taken == 0
}

func (b *bucket) refill(now time.Time, perSecond float64) {
	if d := now.Sub(b.last); d > 0 {
		b.taken = max(b.taken-d.Seconds()*perSecond, 0)
		b.last = now
	}
}
