package store

import (
	"context"
	"math"
	"time"
)

// Buckets keep the token buckets of rate limits for all replicas of a server. They must be safe for concurrent
// use by several processes, and go by one clock, such as that of the server that has them.
//
// Keys have at most 256 bytes. The context of each call has a deadline. An implementation that blocks must
// return then.
type Buckets interface {
	// Take takes tokens from a bucket in one atomic step: first spent of them, which a replica has given
	// away already, and then up to more whole ones, as many as there are. The first may leave the bucket with less than
	// none, down to -b.Burst. With a negative spent, tokens come back: no more than fit.
	//
	// A bucket that is not known is full. One that nobody has taken from for so long that it is full again may
	// be forgotten. Callers may describe one bucket differently, while a new release replaces another: each
	// call goes by its own description.
	//
	// After an error the tokens may be taken or not.
	Take(ctx context.Context, key string, b Bucket, spent, more int) (Tokens, error)
}

// A Bucket describes a token bucket.
type Bucket struct {
	// Burst is how many tokens it holds. It is positive.
	Burst int
	// Fill is how long an empty one takes to be full. It is positive.
	Fill time.Duration
}

// Tokens are what [Buckets].Take has got.
type Tokens struct {
	Taken int     // of those that were asked for
	Left  float64 // in the bucket
}

// A memoryBucket has so many tokens at a time.
type memoryBucket struct {
	tokens float64
	at     time.Time
}

// Take implements [Buckets].
func (m *Memory) Take(_ context.Context, key string, b Bucket, spent, more int) (t Tokens, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, burst := m.time(), float64(b.Burst)
	t.Left = burst
	if old, known := m.buckets[key]; known {
		t.Left = min(burst, old.tokens+burst*max(0, now.Sub(old.at).Seconds())/b.Fill.Seconds())
	}
	t.Left = max(-burst, min(burst, t.Left-float64(spent)))
	t.Taken = max(0, min(more, int(math.Floor(t.Left))))
	t.Left -= float64(t.Taken)
	if m.buckets == nil {
		m.buckets = map[string]memoryBucket{}
	}
	m.buckets[key] = memoryBucket{t.Left, now}
	if t.Left == burst {
		delete(m.buckets, key)
	}
	return t, nil
}
