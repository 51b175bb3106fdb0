package rates

import (
	"container/list"
	"math"
	"time"
)

// buckets are the token buckets of one rule, by key. A bucket that is full is the same as none, so
// that it can go when nobody uses it. They must be guarded by the lock of their limiter.
type buckets struct {
	limit  float64 // tokens for each second
	burst  int
	fill   time.Duration // of an empty bucket
	byKey  map[key]*list.Element
	recent *list.List // of *bucket, the most recently used first
}

type bucket struct {
	key    key
	tokens float64 // at the time at; below 0 if replicas have spent more than there were
	at     time.Time
	last   time.Time // use
	debt   *debt     // nil if no other replica has the bucket, too
}

func newBuckets(limit float64, burst int) buckets {
	return buckets{
		limit: limit, burst: burst, fill: duration(float64(burst) / limit),
		byKey: map[key]*list.Element{}, recent: list.New(),
	}
}

// get returns the bucket of a key, or nil.
func (b *buckets) get(k key, now time.Time) *bucket {
	e := b.byKey[k]
	if e == nil {
		return nil
	}
	b.recent.MoveToFront(e)
	used := e.Value.(*bucket)
	used.last = now
	return used
}

// add adds a bucket, which is full.
func (b *buckets) add(k key, now time.Time) *bucket {
	added := &bucket{key: k.clone(), tokens: float64(b.burst), at: now, last: now}
	b.byKey[added.key] = b.recent.PushFront(added)
	return added
}

// level returns how many tokens a bucket has. A time before that of an earlier call counts as that one.
func (b *buckets) level(of *bucket, now time.Time) float64 {
	return min(float64(b.burst), of.tokens+b.limit*max(0, now.Sub(of.at).Seconds()))
}

// take takes a token.
func (b *buckets) take(of *bucket, now time.Time) { b.set(of, b.level(of, now)-1, now) }

// set sets how many tokens a bucket has.
func (b *buckets) set(of *bucket, tokens float64, now time.Time) {
	of.tokens = tokens
	if now.After(of.at) {
		of.at = now
	}
}

// searched is how many of the least recently used buckets are looked at for those that can go.
const searched = 8

// removeFull removes full buckets that were not used for long.
func (b *buckets) removeFull(now time.Time) {
	e := b.recent.Back()
	for range searched {
		if e == nil {
			return
		}
		before := e.Prev()
		if of := e.Value.(*bucket); b.level(of, now) >= float64(b.burst) && !of.debt.open() {
			b.remove(e)
		}
		e = before
	}
}

// removeFullest removes the fullest of the buckets that were not used for long. It reports whether
// that one was full. There must be a bucket.
func (b *buckets) removeFullest(now time.Time) (full bool) {
	var fullest *list.Element
	most := math.Inf(-1)
	e := b.recent.Back()
	for range searched {
		if e == nil {
			break
		}
		if tokens := b.level(e.Value.(*bucket), now); tokens > most {
			fullest, most = e, tokens
		}
		e = e.Prev()
	}
	b.remove(fullest)
	return most >= float64(b.burst)
}

func (b *buckets) remove(e *list.Element) {
	delete(b.byKey, e.Value.(*bucket).key)
	b.recent.Remove(e)
}

// wait returns the time until a bucket has a token; 0 if it has one.
func (b *buckets) wait(of *bucket, now time.Time) time.Duration {
	missing := 1 - b.level(of, now)
	if missing <= 0 {
		return 0
	}
	return duration(missing / b.limit)
}

// duration returns seconds as a duration, at most the longest one.
func duration(seconds float64) time.Duration {
	return time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
}

// mostUsed returns the share of tokens that the emptiest bucket has given. Buckets that were not
// used for so long that they are full are not looked at.
func (b *buckets) mostUsed(now time.Time) (used float64) {
	refilled := now.Add(-b.fill)
	for e := b.recent.Front(); e != nil; e = e.Next() {
		of := e.Value.(*bucket)
		if of.last.Before(refilled) {
			break
		}
		used = max(used, 1-b.level(of, now)/float64(b.burst))
	}
	return min(used, 1)
}
