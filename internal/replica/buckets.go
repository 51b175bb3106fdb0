package replica

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/store"
)

// buckets are the token buckets of a store behind a guard.
type buckets struct {
	*Link
}

// Buckets returns the token buckets of the store, with the link's deadline and breaker.
func (l *Link) Buckets() rates.Store { return buckets{l} }

// Take implements [rates.Store].
func (b buckets) Take(ctx context.Context, name string, burst int, fill time.Duration, spent, more int) (taken int, left float64, err error) {
	err = b.guard.do(ctx, session.StoreTake, nil, func(ctx context.Context) error {
		got, err := b.Store.Buckets.Take(ctx, name, store.Bucket{Burst: burst, Fill: fill}, spent, more)
		taken, left = got.Taken, got.Left
		return err
	})
	return taken, left, err
}
