package redisstore

import (
	"context"
	"math/rand/v2"
	"time"
)

// pause waits for a random part of a time that doubles with each try, from first to last.
func pause(ctx context.Context, try int, first, last time.Duration) error {
	longest := last
	if try < 16 {
		longest = min(first<<try, last)
	}
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
