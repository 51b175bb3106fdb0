package session

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBlockedTime: waits that overlap count once, and one that goes on counts so far.
func TestBlockedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b blockedTime
		check := func(want time.Duration) {
			t.Helper()
			if got := b.total(); got != want {
				t.Errorf("blocked for %v, want %v", got, want)
			}
		}
		check(0)
		b.begin()
		time.Sleep(time.Second)
		check(time.Second)
		b.begin()
		time.Sleep(time.Second)
		b.end()
		time.Sleep(time.Second)
		b.end()
		check(3 * time.Second)
		time.Sleep(time.Second)
		check(3 * time.Second)
		b.begin()
		time.Sleep(time.Second)
		b.end()
		check(4 * time.Second)
	})
}
