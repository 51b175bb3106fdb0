package storetest

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
)

// Buckets tests an implementation of [store.Buckets]. open returns one more view on the same buckets, as
// another process has it. wait lets so much time pass for the implementation.
func Buckets(t *testing.T, open func(t *testing.T) store.Buckets, wait func(time.Duration)) {
	t.Run("take", func(t *testing.T) { testTake(t, open(t), open(t)) })
	t.Run("spent", func(t *testing.T) { testSpent(t, open(t)) })
	t.Run("give back", func(t *testing.T) { testGiveBack(t, open(t)) })
	t.Run("refill", func(t *testing.T) { testRefill(t, open(t), wait) })
	t.Run("descriptions", func(t *testing.T) { testDescriptions(t, open(t)) })
	t.Run("large buckets", func(t *testing.T) { testLargeBuckets(t, open(t)) })
	t.Run("concurrent takes", func(t *testing.T) { testConcurrentTakes(t, open) })
}

// slow is a bucket that earns less than a thousandth of a token while a test runs.
var slow = store.Bucket{Burst: 10, Fill: 10_000 * time.Hour}

// expectTake takes tokens, and expects what is taken and left. A slow bucket may have earned a little.
func expectTake(t *testing.T, b store.Buckets, key string, of store.Bucket, spent, more, taken int, left float64) {
	t.Helper()
	got, err := b.Take(t.Context(), key, of, spent, more)
	if err != nil {
		t.Fatal(err)
	}
	if got.Taken != taken || got.Left < left-1e-6 || got.Left > left+1e-3 {
		t.Fatalf("take %d, and up to %d more: %+v, want %d taken and %v left", spent, more, got, taken, left)
	}
}

// testTake: an unknown bucket is full, an empty one gives nothing, and each key has a bucket.
func testTake(t *testing.T, a, b store.Buckets) {
	expectTake(t, a, "take", slow, 0, 0, 0, 10)
	expectTake(t, a, "take", slow, 0, 4, 4, 6)
	expectTake(t, b, "take", slow, 0, 4, 4, 2)
	expectTake(t, a, "take", slow, 0, 4, 2, 0)
	expectTake(t, b, "take", slow, 0, 1, 0, 0)
	expectTake(t, b, "take2", slow, 0, 1, 1, 9)
}

// testSpent: what was spent already is taken in any case, down to an empty bucket below zero.
func testSpent(t *testing.T, b store.Buckets) {
	expectTake(t, b, "spent", slow, 3, 5, 5, 2)
	expectTake(t, b, "spent", slow, 6, 1, 0, -4)
	expectTake(t, b, "spent", slow, 0, 1, 0, -4)
	expectTake(t, b, "spent", slow, 100, 0, 0, -10)
}

// testGiveBack: a bucket takes back what fits.
func testGiveBack(t *testing.T, b store.Buckets) {
	expectTake(t, b, "back", slow, 8, 0, 0, 2)
	expectTake(t, b, "back", slow, -3, 0, 0, 5)
	expectTake(t, b, "back", slow, -3, 20, 8, 0)
	expectTake(t, b, "back", slow, -30, 0, 0, 10)
}

// testRefill: tokens come back with the time, one by one, and no more than fit.
func testRefill(t *testing.T, b store.Buckets, wait func(time.Duration)) {
	fast := store.Bucket{Burst: 100, Fill: 10 * time.Second}
	took := func(spent, more int) store.Tokens {
		got, err := b.Take(t.Context(), "refill", fast, spent, more)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	took(110, 0)
	wait(1500 * time.Millisecond)
	before := took(0, 0).Left
	if before < 5 || before > 100 {
		t.Fatalf("%v tokens are left after 15 have come to a bucket with -10, want 5, or more if the test is slow", before)
	}
	if got := took(0, 1000); got.Taken < int(before) || got.Left < 0 || got.Left >= 1 {
		t.Fatalf("%+v of a bucket with %v tokens", got, before)
	}
	quick := store.Bucket{Burst: 5, Fill: time.Millisecond}
	if _, err := b.Take(t.Context(), "full", quick, 10, 0); err != nil {
		t.Fatal(err)
	}
	wait(time.Second)
	expectTake(t, b, "full", quick, 0, 0, 0, 5)
}

// testDescriptions: a bucket that another release has described is as full as fits.
func testDescriptions(t *testing.T, b store.Buckets) {
	small := store.Bucket{Burst: 3, Fill: slow.Fill}
	expectTake(t, b, "described", slow, 2, 0, 0, 8)
	expectTake(t, b, "described", small, 0, 1, 1, 2)
	expectTake(t, b, "described", slow, 0, 1, 1, 1)
	expectTake(t, b, "described", slow, 11, 0, 0, -10)
	expectTake(t, b, "described", small, 0, 0, 0, -3)
}

// testLargeBuckets: no size and no time is too large for the numbers of an implementation.
func testLargeBuckets(t *testing.T, b store.Buckets) {
	large := store.Bucket{Burst: 1 << 50, Fill: math.MaxInt64 / 2}
	if got, err := b.Take(t.Context(), "large", large, 1<<49, 1<<48); err != nil || got.Taken != 1<<48 || got.Left < 1<<48 {
		t.Fatalf("%+v, %v", got, err)
	}
	year := store.Bucket{Burst: 3, Fill: 366 * 24 * time.Hour}
	expectTake(t, b, "year", year, 0, 5, 3, 0)
	expectTake(t, b, "year", year, 0, 5, 0, 0)
}

// testConcurrentTakes: of several takes at the same time none gets what another one has got.
func testConcurrentTakes(t *testing.T, open func(*testing.T) store.Buckets) {
	of := store.Bucket{Burst: 100, Fill: slow.Fill}
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		b := open(t)
		wg.Go(func() {
			for range 20 {
				got, err := b.Take(t.Context(), "race", of, 0, 3)
				if err != nil {
					t.Error(err)
				}
				taken.Add(int64(got.Taken))
			}
		})
	}
	wg.Wait()
	if n := taken.Load(); n != 100 {
		t.Fatalf("%d tokens were taken of 100", n)
	}
}
